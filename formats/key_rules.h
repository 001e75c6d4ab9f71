// What Plimsoll knows of the keys of a JSON file that another program wrote into a model's folder.
// For all such files, Plimsoll follows a key that changes numbers, or refuses the key by name. So
// each known key has a KeyRule. How Plimsoll treats other keys depends on the file (UnknownKeys).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/json.h"

namespace plimsoll::formats {

struct KeyRule {
  enum class Kind {
    kRead,      // what it says is done, or its reader refuses the value by name
    kRefused,   // it changes numbers, and Plimsoll doesn't do what it says
    kHarmless,  // it changes no number here
  };
  Kind kind = Kind::kRead;
  std::string_view key;           // or a pattern of keys (base/glob.h)
  std::string_view why = {};      // kRefused: the way out; kHarmless: why it changes no number
  std::string_view neutral = {};  // kRefused: JSON of a value that changes nothing either
};

constexpr KeyRule Read(std::string_view key) { return {KeyRule::Kind::kRead, key}; }
// Values that change nothing are let through: null and `neutral` or, where none is given, empty
// ones (false, 0, "", [], {}).
constexpr KeyRule Refused(std::string_view key, std::string_view way_out,
                          std::string_view neutral = {}) {
  return {KeyRule::Kind::kRefused, key, way_out, neutral};
}
constexpr KeyRule Harmless(std::string_view key, std::string_view why) {
  return {KeyRule::Kind::kHarmless, key, why};
}

// A key with a value that isn't empty, and without a rule.
enum class UnknownKeys {
  kRefused,  // of files in which any key may change numbers
  kNamed,    // of files in which users and programs note what they like: a warning names it, once
};

// Throws a UserError that names the file and the key where a rule refuses the value. The first rule
// whose pattern fits is the key's.
void CheckKeys(const JsonObject& file, std::span<const KeyRule> rules,
               UnknownKeys unknown = UnknownKeys::kRefused);

}  // namespace plimsoll::formats
