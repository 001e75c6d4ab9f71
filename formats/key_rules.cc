#include "formats/key_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/glob.h"
#include "base/message.h"

namespace plimsoll::formats {
namespace {

using nlohmann::json;

bool IsEmpty(const json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

bool ChangesNothing(const KeyRule& rule, const json& value) {
  if (rule.neutral.empty()) return IsEmpty(value);
  return value.is_null() || value == json::parse(rule.neutral);
}

std::string TextOf(const json& value) {
  return Printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

// Warns once for each `subject`, since a run may read a folder several times.
void WarnOnce(const std::string& subject, const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(subject).second) PrintWarning(text);
}

}  // namespace

void CheckKeys(const JsonObject& file, std::span<const KeyRule> rules, UnknownKeys unknown) {
  for (const auto& [key, value] : file.json().items()) {
    const auto rule =
        std::ranges::find_if(rules, [&](const KeyRule& one) { return MatchesGlob(one.key, key); });
    if (rule == rules.end()) {
      if (IsEmpty(value)) continue;
      if (unknown != UnknownKeys::kRefused) {
        const std::string text = fmt::format(
            "{}: is a key that Plimsoll doesn't know; it changes nothing here", file.PlaceOf(key));
        WarnOnce(unknown == UnknownKeys::kNamedOnce ? key : text, text);
        continue;
      }
      file.Fail(key, fmt::format("is {}, a key that Plimsoll doesn't know; remove it from the file "
                                 "if the model's numbers don't depend on it",
                                 TextOf(value)));
    }
    if (rule->kind != KeyRule::Kind::kRefused || ChangesNothing(*rule, value)) continue;
    file.Fail(key, fmt::format("is {}, which is not supported: {}", TextOf(value), rule->why));
  }
}

}  // namespace plimsoll::formats
