// Language models that predict the next token (decoders): what all their families have in common.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "formats/key_rules.h"
#include "models/model.h"
#include "models/model_spec.h"

namespace plimsoll::models {

class LanguageModel : public Model {
 public:
  const ModelSpec& spec() const { return spec_; }

  DropoutRates dropout() const override { return spec_.dropout; }
  std::optional<ops::PreferenceOptions> preference() const override { return spec_.preference; }
  std::optional<TextSizes> text_sizes() const override {
    return TextSizes{spec_.vocab, spec_.max_sequence};
  }
  std::map<std::string, std::string> description() const override;
  std::vector<std::pair<std::string, int64_t>> shared_sizes() const override;
  void WriteConfig(nlohmann::ordered_json& config) const override;
  // UserError when the batch's sequence is longer than the spec's.
  void CheckBatch(const Batch& batch) const override;

 protected:
  explicit LanguageModel(ModelSpec spec) : Model(spec.family), spec_(std::move(spec)) {}

 private:
  ModelSpec spec_;
};

// Throws InternalError when `model` is no language model.
const ModelSpec& LanguageSpec(const Model& model);

// A family of language models, as its own file registers it. Its settings have the names of
// ModelSpec's fields, and "sequence".
struct LanguageFamily {
  std::string name;
  std::vector<Setting> settings;
  // Fills in settings that follow from other settings, beyond those that follow in all families:
  // kv_heads, head_width, max_sequence.
  void (*derive)(Settings&);
  // Finds problems beyond those that any spec can have; nullopt: the spec describes a model.
  std::optional<SpecProblem> (*find_problem)(const ModelSpec&);
  std::unique_ptr<LanguageModel> (*make)(ModelSpec);
  // Reads transformers' config.json, without the members that all families have (tokens' ids,
  // tying, initialisation).
  ModelSpec (*read_config)(const formats::JsonObject&);
  void (*write_config)(const ModelSpec&, nlohmann::ordered_json&);
  // What read_config reads of config.json, and what else the family knows of it.
  std::vector<formats::KeyRule> config_keys;
};

class LanguageFamilyRegistration {
 public:
  explicit LanguageFamilyRegistration(const LanguageFamily& family);
};

// The setting, of type bool, that becomes ModelSpec::documents_apart. It is no key of a run file:
// what makes the model adds it where the data ask for it.
inline constexpr const char* kDocumentsApart = "documents_apart";

// Likewise the settings that become ModelSpec::preference: "preference.loss", a text, "dpo" or
// "ipo"; the others are numbers, which it goes with.
inline constexpr const char* kPreferenceLoss = "preference.loss";
inline constexpr const char* kPreferenceBeta = "preference.beta";
inline constexpr const char* kPreferenceSmoothing = "preference.label_smoothing";
inline constexpr const char* kPreferenceSftWeight = "preference.sft_weight";

// ModelSpec::windowed where each `pattern`-th layer has no window.
std::vector<bool> WindowedLayers(int64_t layers, int64_t pattern);

// UserError "model.FIELD: REASON" when the spec describes no model.
std::unique_ptr<LanguageModel> MakeModel(const ModelSpec& spec);

// The divisors of `whole` next below and above `value`, as "6 or 8".
std::string NearestDivisors(int64_t whole, int64_t value);

// The vocabulary of a model that starts from a checkpoint with `stored` tokens: that of the setting
// "vocab", which follows from the checkpoint where it isn't given. SettingError when it is smaller.
int64_t VocabularyBeside(int64_t stored, Settings& settings);

// Adds the head's row to a family's table of tensors: a parameter of its own, or, tied, a copy of
// the token embedding, which is the table's first row.
void AddHead(bool tied, CheckpointTable& table);

// For families' config.json: the size at `key`, limited to what any spec allows.
int64_t SizeIn(const formats::JsonObject& config, const std::string& key);
int64_t SizeIn(const formats::JsonObject& config, const std::string& key, int64_t fallback);
// Checks a switch of transformers that changes the mathematics in a way that no spec can express.
void RequireSwitch(const formats::JsonObject& config, const std::string& key, bool needed);

}  // namespace plimsoll::models
