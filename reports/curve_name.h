// Names under which metrics are shown as curves.
#pragma once

#include <string>

namespace plimsoll::reports {

// The name of a member of a row of metrics, with its group: "loss" becomes "train/loss",
// "eval_loss" "eval/loss".
inline std::string CurveName(const std::string& key) {
  return key.starts_with("eval_") ? "eval/" + key.substr(5) : "train/" + key;
}

}  // namespace plimsoll::reports
