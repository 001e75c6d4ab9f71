// Language models that predict the next token (decoders): what families of them have in common.
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
#include "models/model.h"
#include "models/model_spec.h"

namespace plimsoll::models {

class LanguageModel : public Model {
 public:
  const ModelSpec& spec() const { return spec_; }

  double dropout() const override { return spec_.dropout; }
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

// InternalError when it is none.
const ModelSpec& LanguageSpec(const Model& model);

// A family of them, as its own file registers it. Settings have the names of ModelSpec's fields,
// and "sequence".
struct LanguageFamily {
  std::string name;
  std::vector<Setting> settings;
  // What follows from other settings, beyond what does in all families: kv_heads, head_width,
  // max_sequence.
  void (*derive)(Settings&);
  // Beyond what is wrong with any spec; nothing: it describes a model.
  std::optional<SpecProblem> (*find_problem)(const ModelSpec&);
  std::unique_ptr<LanguageModel> (*make)(ModelSpec);
  // config.json of transformers, but for what all have (tokens' ids, tying, initialisation).
  ModelSpec (*read_config)(const formats::JsonObject&);
  void (*write_config)(const ModelSpec&, nlohmann::ordered_json&);
};

class LanguageFamilyRegistration {
 public:
  explicit LanguageFamilyRegistration(const LanguageFamily& family);
};

// Rows that several families have. What differs, such as how a default is found, they change.
std::vector<Setting> LanguageSettings();
Setting LanguageSetting(const std::string& name, const std::string& derived = "");
Setting WithDefault(Setting setting, SettingValue value);

// UserError "model.FIELD: REASON" when the spec describes no model.
std::unique_ptr<LanguageModel> MakeModel(const ModelSpec& spec);

// For families' config.json: the size `key`, up to what any spec allows.
int64_t SizeIn(const formats::JsonObject& config, const std::string& key);
int64_t SizeIn(const formats::JsonObject& config, const std::string& key, int64_t fallback);
// A switch of transformers that changes the mathematics in a way no spec can say.
void RequireSwitch(const formats::JsonObject& config, const std::string& key, bool needed);

}  // namespace plimsoll::models
