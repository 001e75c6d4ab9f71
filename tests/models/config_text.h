// Texts of a config.json, and what is read of them.
#pragma once

#include <string>

#include "formats/json.h"
#include "models/model_spec.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"

namespace plimsoll::models {

inline ModelSpec ReadConfig(const std::string& text) {
  return SpecFromConfig(formats::JsonObject::FromText(text, "config.json"));
}

// `text`, a JSON object, with `members` appended.
inline std::string WithMembers(std::string text, const std::string& members) {
  return text.replace(text.rfind('}'), 1, ", " + members + "}");
}

inline std::string RefusedConfig(const std::string& text) {
  return UserErrorOf([&] { ReadConfig(text); });
}

}  // namespace plimsoll::models
