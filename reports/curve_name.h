// Names of metrics where they are shown as curves.
#pragma once

#include <string>

namespace plimsoll::reports {

// A member of a row of metrics, in its group: "loss" as "train/loss", "eval_loss" as "eval/loss".
inline std::string CurveName(const std::string& key) {
  return key.starts_with("eval_") ? "eval/" + key.substr(5) : "train/" + key;
}

}  // namespace plimsoll::reports
