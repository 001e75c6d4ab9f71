// The schema: one row per key of the configuration. It drives parsing, defaults, --set, the
// resolved configuration, the reference (docs/configuration.md) and the JSON schema for editors.
//
// A row ties a dotted path to a field of RunConfig; the field's initialiser is the key's default.
// To add a key: add a field to run_config.h and a row to schema_keys.cc. Families of models bring
// their own (models/family.h, model_keys.h).
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/config/value.h"

namespace plimsoll::config {

struct Key {
  std::string path;  // "optimizer.lr"
  Type type;
  std::string doc;                   // one sentence, Markdown
  Value default_value;               // of RunConfig{}
  std::string derived;               // how the default is found when it is no constant, in words
  std::vector<std::string> choices;  // kEnum
  std::map<std::string, std::string> also;  // other words for some of them: "true", "false"
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is out of range
  bool below_max = false;  // max itself is out of range
  bool limited =
      false;  // only values in `supported` exist so far; others are refused, never ignored
  std::vector<std::string> supported;  // as written in a file; empty: leave the key out
  // Families of models whose key it is; empty: not of one.
  std::vector<std::string> families;
  Setting::BesideWeights beside_weights = Setting::BesideWeights::kNo;
  // The key means something only where another key has one of these values.
  std::string when_key;
  std::vector<std::string> when_values;

  std::function<Value(const RunConfig&)> get;
  std::function<void(RunConfig&, const Value&)> set;

  std::string Section() const;  // "optimizer"; empty for keys of the top level
  std::string Name() const;     // "lr"
  // Whether the key means anything in this configuration (see when_key).
  bool Applies(const RunConfig& config) const;
};

struct SectionInfo {
  std::string name;
  std::string doc;
};

// In the order of the reference and of the resolved configuration.
const std::vector<Key>& Schema();
const std::vector<SectionInfo>& Sections();

const Key* FindKey(const std::string& path);  // nullptr: no such key
bool IsSection(const std::string& name);

// "between 1 and 8", "above 0 and below 1"; empty: any.
std::string RangeText(const Key& key);

// The value for this key, checked for type, range and support; origin: key: reason otherwise.
Value ParseKey(const Key& key, const Tree& tree);

}  // namespace plimsoll::config
