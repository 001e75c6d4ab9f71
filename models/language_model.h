// Language models that predict the next token (decoders): the code that all their families share.
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

  DropoutRates dropout() const override {
    return spec_.draws_dropout ? spec_.dropout : DropoutRates();
  }
  DropoutRates configured_dropout() const override { return spec_.dropout; }
  std::optional<ops::PreferenceOptions> preference() const override { return spec_.preference; }
  std::optional<TextSizes> text_sizes() const override {
    return TextSizes{spec_.vocab, spec_.max_sequence};
  }
  std::map<std::string, std::string> description() const override;
  std::vector<std::pair<std::string, int64_t>> shared_sizes() const override;
  void WriteConfig(nlohmann::ordered_json& config) const override;
  // Throws a UserError when the batch's sequence is longer than the spec's.
  void CheckBatch(const Batch& batch) const override;

 protected:
  explicit LanguageModel(ModelSpec spec) : Model(spec.family), spec_(std::move(spec)) {}

 private:
  ModelSpec spec_;
};

// The spec of a language model; throws InternalError for other models.
const ModelSpec& LanguageSpec(const Model& model);

// A family of language models, which its own file registers. Its settings have the names of
// ModelSpec's fields, and "sequence".
struct LanguageFamily {
  std::string name;
  std::vector<Setting> settings;
  // Fills in settings that follow from other settings, in addition to kv_heads, head_width and
  // max_sequence, which are derived for all families.
  void (*derive)(Settings&);
  // Finds problems, in addition to those that are checked for every spec. nullopt: the spec is
  // valid.
  std::optional<SpecProblem> (*find_problem)(const ModelSpec&);
  std::unique_ptr<LanguageModel> (*make)(ModelSpec);
  // Reads transformers' config.json, except the keys that all families share (token ids, tying,
  // initialisation).
  ModelSpec (*read_config)(const formats::JsonObject&);
  void (*write_config)(const ModelSpec&, nlohmann::ordered_json&);
  // Rules for the keys of config.json that read_config reads, and for others that the family knows.
  std::vector<formats::KeyRule> config_keys;
};

class LanguageFamilyRegistration {
 public:
  explicit LanguageFamilyRegistration(const LanguageFamily& family);
};

// The name of a bool setting that becomes ModelSpec::documents_apart. It is not a key of run files:
// the code that makes the model adds it if the data require it.
inline constexpr const char* kDocumentsApart = "documents_apart";

// The settings that become ModelSpec::preference; they are not keys of run files either.
// "preference.loss" is "dpo" or "ipo"; the others are numbers and require it.
inline constexpr const char* kPreferenceLoss = "preference.loss";
inline constexpr const char* kPreferenceBeta = "preference.beta";
inline constexpr const char* kPreferenceSmoothing = "preference.label_smoothing";
inline constexpr const char* kPreferenceSftWeight = "preference.sft_weight";
// The name of a bool setting that becomes ModelSpec::draws_dropout.
inline constexpr const char* kDrawsDropout = "draws_dropout";

// The value of ModelSpec::windowed in which each `pattern`-th layer has no window.
std::vector<bool> WindowedLayers(int64_t layers, int64_t pattern);

// Throws a UserError "model.FIELD: REASON" when the spec is invalid.
std::unique_ptr<LanguageModel> MakeModel(const ModelSpec& spec);

// The nearest divisors of `whole` below and above `value`, as text: "6 or 8".
std::string NearestDivisors(int64_t whole, int64_t value);

// The vocabulary of a model that starts from a checkpoint with `stored` tokens: the setting
// "vocab", whose default is the checkpoint's. Throws a SettingError when it is smaller.
int64_t VocabularyBeside(int64_t stored, Settings& settings);

// Adds the head's row to a family's checkpoint table: a parameter of its own or, if tied, a copy of
// the token embedding, which is the table's first row.
void AddHead(bool tied, CheckpointTable& table);

// For families' config.json: the size at `key`, within the limits of any spec.
int64_t SizeIn(const formats::JsonObject& config, const std::string& key);
int64_t SizeIn(const formats::JsonObject& config, const std::string& key, int64_t fallback);
// Throws a UserError unless a switch of transformers has the value `needed`, the only one that
// specs support.
void RequireSwitch(const formats::JsonObject& config, const std::string& key, bool needed);

}  // namespace plimsoll::models
