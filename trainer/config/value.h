// Converts values of keys from the text of a YAML tree to typed values and back.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/config/yaml_tree.h"

namespace plimsoll::config {

enum class Type {
  kBool,
  kInt,
  kFloat,
  kString,
  kEnum,
  kPair,               // two numbers
  kStringList,         // one string or a list of strings
  kFloatList,          // one number or a list of numbers
  kMemorySize,         // 24GiB, 90%, free - 1GiB
  kAutoOrInt,          // auto (monostate) or an integer
  kAutoOrBool,         // the strings "auto", "true" or "false"
  kFolderOrBool,       // a path, true (the string "true") or false (the empty string)
  kWeightDecayGroups,  // list of {pattern, weight_decay}
  kTrainSources,       // one string, a list of strings, or a list of {files, weight}
};

// std::monostate: not set (or auto, off).
using Value = std::variant<std::monostate, bool, int64_t, double, std::string,
                           std::vector<std::string>, std::vector<double>, std::array<double, 2>,
                           MemorySize, std::vector<WeightDecayGroup>, std::vector<TrainSource>>;

// A description of this type's values: "an integer", "two numbers, [a, b]".
std::string TypeText(Type type);

// Converts a tree to a value of this type. Throws UserError "<origin>: <path>: expected …, got …".
Value ParseValue(Type type, const std::string& path, const Tree& tree);

// A value as a file writes it, on one line; parses back to the same value.
std::string ToText(Type type, const Value& value);

// Parses "24GiB", "1.5GB", "90%", "free - 1GiB". Returns false if the text is not a memory size.
bool ParseMemorySize(const std::string& text, MemorySize* size);
std::string ToText(const MemorySize& size);

// A YAML scalar that a parser reads back as exactly this string.
std::string ScalarText(const std::string& text);

}  // namespace plimsoll::config
