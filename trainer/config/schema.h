// The schema: one row per key of the configuration. It drives parsing, defaults, --set, the
// resolved configuration, the reference (docs/configuration.md) and the JSON schema for editors.
//
// A row ties a dotted path to a field of RunConfig; the field's initialiser is the key's default.
// To add a key: add a field to run_config.h and a row to schema_keys.cc or learning_keys.cc. Model
// families and data sources register their own keys (owner_keys.h).
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/config/value.h"

namespace plimsoll::config {

struct Key {
  std::string path;  // "optimizer.lr"
  Type type;
  std::string doc;                   // one sentence, Markdown
  Value default_value;               // the field's value in RunConfig{}
  std::string derived;               // in words, how a default that is not constant is derived
  std::vector<std::string> choices;  // the values of a kEnum
  std::map<std::string, std::string> also;  // other spellings of choices: "true", "false"
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is out of range
  bool below_max = false;  // max itself is out of range
  // The model families or data sources that have the key; empty: the key has no owner.
  std::vector<std::string> owners;
  Setting::WithLoadedWeights with_loaded_weights = Setting::WithLoadedWeights::kNo;
  // The key applies only where another key has one of these values.
  std::string when_key;
  std::vector<std::string> when_values;

  std::function<Value(const RunConfig&)> get;
  std::function<void(RunConfig&, const Value&)> set;

  std::string Section() const;  // "optimizer"; empty for keys of the top level
  std::string Name() const;     // "lr", "fp8.recipe"
  // The words of the path. Each word except the last names a map, nested in the map of the word
  // before it.
  std::vector<std::string> Words() const;
  // The key that chooses among owners: "model.family" or "data.source".
  std::string Chooser() const { return Section() == "model" ? "model.family" : "data.source"; }
  bool MayBeAuto() const { return type == Type::kAutoOrInt || type == Type::kAutoOrBool; }
  // Whether the key applies to this configuration (see when_key).
  bool Applies(const RunConfig& config) const;
  // Text: the key's value as a file writes it. SetText: sets the value from such a text, with the
  // checks of ParseKey.
  std::string Text(const RunConfig& config) const;
  void SetText(RunConfig& config, const std::string& text) const;
};

// The section whose keys are the objectives' names.
inline constexpr const char* kObjectives = "objectives";

struct SectionInfo {
  std::string name;
  std::string doc;
  bool may_be_auto = false;
};

// All keys, in the order of the reference and of the resolved configuration.
const std::vector<Key>& Schema();
const std::vector<SectionInfo>& Sections();

const Key* FindKey(const std::string& path);  // nullptr: unknown key
bool IsSection(const std::string& name);
// Whether a path names a map within a section: "amp.fp8".
bool IsNestedMap(const std::string& path);
// Whether a section may be given as `auto`, which sets each of its keys that allows `auto`.
bool MayBeAuto(const std::string& section);

// A key of one objective, "objectives.critic.optimizer.lr": the objective's name, and the run's
// key.
struct ObjectiveKey {
  std::string objective;
  const Key* key = nullptr;
};
// The key that `path` names; nothing if it names no objective's key. An objective can only have
// keys of `optimizer` and `schedule`.
std::optional<ObjectiveKey> FindObjectiveKey(const std::string& path);
// The key that a path means, even if the path names an objective; nullptr: none.
const Key* FindMeantKey(const std::string& path);

// A key's line in a file: its indent and name. `opening` has the lines that open its maps, except
// the maps that also contain the preceding key `before`: "amp:\n", "  fp8:\n". nullptr: no key
// precedes it.
struct KeyLines {
  std::string opening, indent, name;
};
KeyLines LinesOf(const Key& key, const Key* before);

// The range of a key's values: "between 1 and 8", "above 0 and below 1"; empty: any value.
std::string RangeText(const Key& key);

// The error for a missing key: "run.yaml:4: model.width: missing; WAY OUT", with the place of the
// key's section.
UserError Missing(const RunConfig& config, const std::string& key, const std::string& way_out);

// The place of a message's second key, " (run.yaml:4)"; empty if the key has its default.
std::string GivenAt(const RunConfig& config, const std::string& key);

// Puts the place of a key ("run.yaml:4: ") before a message that begins with that key ("data.train:
// …", "data.train[1]: …").
UserError WithPlace(const RunConfig& config, const UserError& error);

// Parses the value for this key and checks its type, range and support. UserError "origin: key:
// reason".
Value ParseKey(const Key& key, const Tree& tree);

}  // namespace plimsoll::config
