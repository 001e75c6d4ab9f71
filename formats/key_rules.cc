#include "formats/key_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/glob.h"

namespace plimsoll::formats {
namespace {

using nlohmann::json;

bool IsEmpty(const json& value) {
  return value.is_null() || value == false || value == "" ||
         (value.is_structured() && value.empty());
}

std::string TextOf(const json& value) {
  return Printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

void CheckKeys(const JsonObject& file, std::span<const KeyRule> rules) {
  for (const auto& [key, value] : file.json().items()) {
    if (IsEmpty(value)) continue;
    const auto rule =
        std::ranges::find_if(rules, [&](const KeyRule& one) { return MatchesGlob(one.key, key); });
    if (rule == rules.end()) {
      file.Fail(key, fmt::format("is {}, a key that Plimsoll doesn't know; remove it from the file "
                                 "if the model's numbers don't depend on it",
                                 TextOf(value)));
    }
    if (rule->kind != KeyRule::Kind::kRefused) continue;
    if (!rule->neutral.empty() && value == json::parse(rule->neutral)) continue;
    file.Fail(key, fmt::format("is {}, which is not supported: {}", TextOf(value), rule->why));
  }
}

}  // namespace plimsoll::formats
