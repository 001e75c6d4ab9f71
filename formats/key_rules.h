// Rules for the keys of a JSON file that another program wrote into a model's folder. In all such
// files, Plimsoll follows a key that changes numbers, or refuses the key by name. Therefore each
// known key has a KeyRule. The treatment of unknown keys depends on the file (UnknownKeys).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/json.h"

namespace plimsoll::formats {

struct KeyRule {
  enum class Kind {
    kRead,      // Plimsoll follows the key, or its reader refuses the value by name
    kRefused,   // the key changes numbers, and Plimsoll does not support it
    kHarmless,  // the key does not change any number in Plimsoll
  };
  Kind kind = Kind::kRead;
  std::string_view key;       // a key, or a pattern of keys (base/glob.h)
  std::string_view why = {};  // kRefused: what to do; kHarmless: why the key changes no number
  // kRefused: a JSON value that is accepted because it changes nothing.
  std::string_view neutral = {};
};

constexpr KeyRule Read(std::string_view key) { return {KeyRule::Kind::kRead, key}; }
// Makes a kRefused rule. Accepted are null and `neutral`; without `neutral`, empty values (false,
// 0, "", [], {}).
constexpr KeyRule Refused(std::string_view key, std::string_view way_out,
                          std::string_view neutral = {}) {
  return {KeyRule::Kind::kRefused, key, way_out, neutral};
}
constexpr KeyRule Harmless(std::string_view key, std::string_view why) {
  return {KeyRule::Kind::kHarmless, key, why};
}

// What happens to a key that has no rule and whose value is not empty.
enum class UnknownKeys {
  kRefused,    // for files in which any key may change numbers
  kNamed,      // for files in which users and programs store notes: a warning names the key once
  kNamedOnce,  // for records of many, such as lines: one warning for the key in all of them
};

// Throws a UserError that names the file and the key if a rule refuses the value. If several
// patterns match a key, the first rule applies.
void CheckKeys(const JsonObject& file, std::span<const KeyRule> rules,
               UnknownKeys unknown = UnknownKeys::kRefused);

}  // namespace plimsoll::formats
