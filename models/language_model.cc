#include "models/language_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/amounts.h"
#include "base/error.h"
#include "models/config_keys.h"
#include "models/family.h"
#include "models/language_settings.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using Json = nlohmann::ordered_json;

// Limits that no model reaches, yet small enough that no product of sizes overflows 63 bits.
constexpr int64_t kMaxLayers = int64_t{1} << 13;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxFfnWidth = int64_t{1} << 22;
constexpr int64_t kMaxVocab = int64_t{1} << 30;
constexpr int64_t kMaxSequence = int64_t{1} << 30;

std::map<std::string, LanguageFamily, std::less<>>& Registry() {
  static std::map<std::string, LanguageFamily, std::less<>> families;
  return families;
}

struct Range {
  const char* field;
  int64_t value;
  int64_t max;
};

// Whether attention must not cross documents, which the training data may require. kDocumentsApart
// is not a key of run files.
bool KeepsDocumentsApart(const Settings& s) {
  return s.Has(kDocumentsApart) && s.Bool(kDocumentsApart);
}

bool DrawsDropout(const Settings& s) { return !s.Has(kDrawsDropout) || s.Bool(kDrawsDropout); }

std::optional<ops::PreferenceOptions> PreferenceOf(const Settings& s) {
  if (!s.Has(kPreferenceLoss)) return std::nullopt;
  return ops::PreferenceOptions{
      .loss = s.Text(kPreferenceLoss) == "ipo" ? ops::Preference::kIpo : ops::Preference::kDpo,
      .beta = s.Float(kPreferenceBeta),
      .label_smoothing = s.Float(kPreferenceSmoothing),
      .sft_weight = s.Float(kPreferenceSftWeight)};
}

ModelSpec SpecOf(const std::string& family, const Settings& s) {
  ModelSpec spec;
  spec.family = family;
  spec.layers = s.Int("layers");
  spec.width = s.Int("width");
  spec.heads = s.Int("heads");
  spec.kv_heads = s.Int("kv_heads");
  spec.head_width = s.Int("head_width");
  spec.ffn_width = s.Int("ffn_width");
  spec.vocab = s.Int("vocab");
  spec.max_sequence = s.Int("max_sequence");
  spec.tied = s.Bool("tied");
  spec.attention_bias = s.Bool("attention_bias");
  spec.norm_eps = s.Float("norm_eps");
  spec.init_std = s.Float("init_std");
  spec.dropout = DropoutRatesOf(s);
  spec.documents_apart = KeepsDocumentsApart(s);
  spec.preference = PreferenceOf(s);
  spec.draws_dropout = DrawsDropout(s);
  if (s.Has("rope_theta")) spec.rope_theta = s.Float("rope_theta");
  if (s.Has("rope_type") && s.Text("rope_type") == "linear") {
    spec.rope_scaling = RopeScaling::Linear(s.Float("rope_factor"));
  } else if (s.Has("rope_type") && s.Text("rope_type") == "yarn") {
    spec.rope_scaling = RopeScaling::Yarn(s.Float("rope_factor"), s.Int("rope_original_sequence"));
  }
  if (s.Has("rotary_width") && s.Int("rotary_width") != spec.head_width) {
    spec.rotary_width = s.Int("rotary_width");
  }
  if (s.Has("window")) spec.window = s.Int("window");
  if (s.Has("window_pattern")) {
    spec.windowed = WindowedLayers(spec.layers, s.Int("window_pattern"));
  }
  if (s.Has("rope_local_base_freq")) {
    spec.rope_local_base_freq = s.Float("rope_local_base_freq");
  }
  if (s.Has("query_pre_attn_scalar")) {
    spec.query_pre_attn_scalar = s.Int("query_pre_attn_scalar");
  }
  if (s.Has("attn_logit_softcapping")) {
    spec.attn_logit_softcapping = s.Float("attn_logit_softcapping");
  }
  if (s.Has("final_logit_softcapping")) {
    spec.final_logit_softcapping = s.Float("final_logit_softcapping");
  }
  if (s.Has("activation") && s.Text("activation") == kActivations[1]) {
    spec.activation = Activation::kGeluErf;
  }
  return spec;
}

void DeriveSizes(const LanguageFamily& family, Settings& s) {
  const int64_t width = s.Int("width"), heads = s.Int("heads");
  s.Derive("kv_heads", heads);
  s.Derive("max_sequence", s.Int("sequence"));
  if (s.Has("rope_type") && s.Text("rope_type") != "default" && !s.Has("rope_factor")) {
    throw MissingSetting("rope_factor",
                         "say by how much longer texts than before are read, as in 4");
  }
  if (s.Has("rope_type") && s.Text("rope_type") == "yarn" && !s.Has("rope_original_sequence")) {
    throw MissingSetting("rope_original_sequence",
                         "say how long texts were before `rope_factor`, as in 4096");
  }
  if (!s.IsGiven("head_width")) {
    if (width % heads != 0) {
      throw SettingError(
          "heads", fmt::format("{} heads do not divide model.width {}{}; use {}", heads, width,
                               s.At("width"), NearestDivisors(width, heads)));
    }
    s.Set("head_width", width / heads);
  }
  CompleteDropout(DropoutPlaces(family.settings), s);
  family.derive(s);
}

void CheckSizes(const Settings& s) {
  const int64_t heads = s.Int("heads"), kv_heads = s.Int("kv_heads");
  if (kv_heads < 1 || heads % kv_heads != 0) {
    throw SettingError(
        "kv_heads",
        fmt::format("{} do not divide model.heads {}{}; use {}", kv_heads, heads, s.At("heads"),
                    NearestDivisors(heads, std::max<int64_t>(kv_heads, 1))));
  }
  if (s.Has("rope_theta") && s.Int("head_width") % 2 != 0) {
    throw SettingError(s.IsGiven("head_width") ? "head_width" : "heads",
                       fmt::format("heads are {} wide; a rotary embedding needs an even width",
                                   s.Int("head_width")));
  }
  if (s.Int("sequence") > s.Int("max_sequence")) {
    throw SettingError("sequence",
                       fmt::format("{} tokens, but the model allows {} (model.max_sequence{}); "
                                   "shorten it",
                                   s.Int("sequence"), s.Int("max_sequence"), s.At("max_sequence")));
  }
}

void RequireSound(const ModelSpec& spec) {
  if (const auto problem = FindProblem(spec)) throw SettingError(problem->field, problem->reason);
}

std::unique_ptr<Model> FromSettings(const LanguageFamily& family, const Settings& settings) {
  const ModelSpec spec = SpecOf(family.name, settings);
  RequireSound(spec);
  return family.make(spec);
}

void ReadTokens(const JsonObject& config, ModelSpec& spec) {
  if (config.Has("bos_token_id")) spec.begin_token = config.RequireInt("bos_token_id");
  if (!config.Has("eos_token_id")) return;
  if (config.json().at("eos_token_id").is_array()) {
    spec.end_tokens = config.RequireInts("eos_token_id");
  } else {
    spec.end_tokens = {config.RequireInt("eos_token_id")};
  }
}

void WriteTokens(const ModelSpec& spec, Json& config) {
  config["bos_token_id"] = spec.begin_token ? Json(*spec.begin_token) : Json();
  if (spec.end_tokens.size() == 1) {
    config["eos_token_id"] = spec.end_tokens[0];
  } else {
    config["eos_token_id"] = spec.end_tokens.empty() ? Json() : Json(spec.end_tokens);
  }
}

// Uses the checkpoint's dropout and longest sequence, unless the run gives its own.
std::unique_ptr<Model> FromConfig(const LanguageFamily& family, const JsonObject& config,
                                  Settings& settings) {
  ModelSpec spec = family.read_config(config);
  ReadTokens(config, spec);
  if (const auto problem = FindProblem(spec)) {
    config.Fail("model_type", fmt::format("these sizes make no {} model: {}: {}", family.name,
                                          problem->field, problem->reason));
  }
  DeriveDropout(DropoutPlaces(family.settings), spec.dropout, settings);
  spec.dropout = DropoutRatesOf(settings);
  spec.documents_apart = KeepsDocumentsApart(settings);
  spec.preference = PreferenceOf(settings);
  spec.draws_dropout = DrawsDropout(settings);
  if (!settings.Has("sequence")) settings.Set("sequence", spec.max_sequence);
  settings.Derive("max_sequence", spec.max_sequence);
  const int64_t stored = spec.vocab;
  spec.vocab = VocabularyBeside(stored, settings);
  if (settings.Int("sequence") > spec.max_sequence) {
    throw SettingError("sequence", fmt::format("{} tokens are more than the model's {}; shorten it "
                                               "or choose another model",
                                               settings.Int("sequence"), spec.max_sequence));
  }
  const int64_t vocab = spec.vocab;
  std::unique_ptr<LanguageModel> model = family.make(std::move(spec));
  model->set_new_tokens(stored, vocab, {"embed.token.weight", "head.weight"});
  return model;
}

// A letter for each layer: s for a sliding window, f for full attention, as in "sssssf".
std::string WindowText(const std::vector<bool>& windowed) {
  std::string text;
  for (const bool has : windowed) text += has ? 's' : 'f';
  return text;
}

// A description such as "linear 4", "llama3 8 1 4 8192", "yarn 4 1.1386294361119891 32 1 32768" or
// "longrope 1.19 4096 short 1 1.1 long 1.5 8".
std::string RopeText(const ModelSpec& spec) {
  if (!spec.rope_scaling) return "default";
  const RopeScaling& scaling = *spec.rope_scaling;
  switch (scaling.type) {
    case RopeScaling::Type::kLinear:
      return fmt::format("linear {}", scaling.factor);
    case RopeScaling::Type::kLlama3:
      return fmt::format("llama3 {} {} {} {}", scaling.factor, scaling.low_freq_factor,
                         scaling.high_freq_factor, scaling.original_sequence);
    case RopeScaling::Type::kYarn:
      return fmt::format("yarn {} {} {} {} {}{}", scaling.factor, scaling.attention_factor,
                         scaling.beta_fast, scaling.beta_slow, scaling.original_sequence,
                         scaling.truncate ? "" : " untruncated");
    case RopeScaling::Type::kLongrope:
      return fmt::format("longrope {} {} short {} long {}", scaling.attention_factor,
                         scaling.original_sequence, fmt::join(scaling.short_factor, " "),
                         fmt::join(scaling.long_factor, " "));
  }
  throw InternalError("a scaling of no type");
}

}  // namespace

void AddHead(bool tied, CheckpointTable& table) {
  const std::string stored = "lm_head.weight";
  if (tied) {
    table.entries.front().copies = {stored};
    table.when_copies_differ =
        "if the model was trained with a head of its own, say tie_word_embeddings: false there";
  } else {
    table.entries.push_back({.parameter = "head.weight", .tensors = {{stored}}, .bare = true});
  }
}

std::string NearestDivisors(int64_t whole, int64_t value) {
  int64_t below = std::min(value, whole);
  while (whole % below != 0) --below;
  int64_t above = value;
  while (above < whole && whole % above != 0) ++above;
  return above >= whole || above == below ? fmt::format("{}", below)
                                          : fmt::format("{} or {}", below, above);
}

std::map<std::string, std::string> LanguageModel::description() const {
  std::map<std::string, std::string> all = {
      {"model.family", spec_.family},
      {"model.layers", fmt::to_string(spec_.layers)},
      {"model.width", fmt::to_string(spec_.width)},
      {"model.heads", fmt::to_string(spec_.heads)},
      {"model.kv_heads", fmt::to_string(spec_.kv_heads)},
      {"model.head_width", fmt::to_string(spec_.head_width)},
      {"model.ffn_width", fmt::to_string(spec_.ffn_width)},
      {"model.vocab", fmt::to_string(spec_.vocab)},
      {"model.max_sequence", fmt::to_string(spec_.max_sequence)},
      {"model.tied", fmt::to_string(spec_.tied)},
      {"model.attention_bias", fmt::to_string(spec_.attention_bias)},
      {"model.norm_eps", fmt::to_string(spec_.norm_eps)},
      {"model.rope_theta", fmt::to_string(spec_.rope_theta)},
      {"model.rope_type", RopeText(spec_)},
      {"model.activation", kActivations[static_cast<size_t>(spec_.activation)]}};
  if (spec_.rotary_width != 0) all["model.rotary_width"] = fmt::to_string(spec_.rotary_width);
  if (spec_.window) all["model.window"] = fmt::to_string(*spec_.window);
  if (!spec_.windowed.empty()) all["model.windowed"] = WindowText(spec_.windowed);
  if (spec_.rope_local_base_freq) {
    all["model.rope_local_base_freq"] = fmt::to_string(*spec_.rope_local_base_freq);
  }
  if (spec_.query_pre_attn_scalar != 0) {
    all["model.query_pre_attn_scalar"] = fmt::to_string(spec_.query_pre_attn_scalar);
  }
  if (spec_.attn_logit_softcapping != 0) {
    all["model.attn_logit_softcapping"] = fmt::to_string(spec_.attn_logit_softcapping);
  }
  if (spec_.final_logit_softcapping != 0) {
    all["model.final_logit_softcapping"] = fmt::to_string(spec_.final_logit_softcapping);
  }
  return all;
}

std::vector<std::pair<std::string, int64_t>> LanguageModel::shared_sizes() const {
  return {{"heads", spec_.heads},
          {"kv_heads", spec_.kv_heads},
          {"ffn_width", spec_.ffn_width},
          {"vocab", spec_.vocab}};
}

void LanguageModel::WriteConfig(Json& config) const {
  const auto family = Registry().find(spec_.family);
  if (family == Registry().end()) return Model::WriteConfig(config);
  family->second.write_config(spec_, config);
  config["tie_word_embeddings"] = spec_.tied;
  config["initializer_range"] = spec_.init_std;
  WriteTokens(spec_, config);
}

void LanguageModel::CheckBatch(const Batch& batch) const {
  if (batch.sequence <= spec_.max_sequence) return;
  throw UserError(
      fmt::format("model.sequence: {} tokens, but the model has {} positions: "
                  "shorten it or raise model.max_sequence",
                  batch.sequence, spec_.max_sequence));
}

const ModelSpec& LanguageSpec(const Model& model) {
  const auto* const language = dynamic_cast<const LanguageModel*>(&model);
  if (language == nullptr) {
    throw InternalError(fmt::format("a model of family '{}' has no ModelSpec", model.family()));
  }
  return language->spec();
}

LanguageFamilyRegistration::LanguageFamilyRegistration(const LanguageFamily& family) {
  Registry()[family.name] = family;
  FamilyRegistration({
      .name = family.name,
      .settings = family.settings,
      .complete =
          [family](Settings& settings) {
            DeriveSizes(family, settings);
            CheckSizes(settings);
          },
      .make = [family](const Settings& settings) { return FromSettings(family, settings); },
      .read_config = [family](const JsonObject& config,
                              Settings& settings) { return FromConfig(family, config, settings); },
      .config_keys = Joined(family.config_keys, LanguageKeys()),
  });
}

std::vector<bool> WindowedLayers(int64_t layers, int64_t pattern) {
  std::vector<bool> windowed;
  for (int64_t layer = 1; layer <= layers; ++layer) windowed.push_back(layer % pattern != 0);
  return windowed;
}

std::optional<SpecProblem> FindProblem(const ModelSpec& spec) {
  const std::array<Range, 8> ranges = {{
      {"layers", spec.layers, kMaxLayers},
      {"width", spec.width, kMaxWidth},
      {"heads", spec.heads, kMaxWidth},
      {"kv_heads", spec.kv_heads, kMaxWidth},
      {"head_width", spec.head_width, kMaxWidth},
      {"ffn_width", spec.ffn_width, kMaxFfnWidth},
      {"vocab", spec.vocab, kMaxVocab},
      {"max_sequence", spec.max_sequence, kMaxSequence},
  }};
  for (const Range& range : ranges) {
    if (range.value < 1 || range.value > range.max) {
      return SpecProblem{range.field,
                         fmt::format("must be from 1 to {}, not {}", range.max, range.value)};
    }
  }
  if (spec.heads % spec.kv_heads != 0) {
    return SpecProblem{"kv_heads",
                       fmt::format("{} do not divide the {} heads", spec.kv_heads, spec.heads)};
  }
  if (spec.heads * spec.head_width > kMaxWidth) {
    return SpecProblem{"head_width",
                       fmt::format("{} of {} {} wider than {}", Counted(spec.heads, "head"),
                                   spec.head_width, spec.heads == 1 ? "is" : "are", kMaxWidth)};
  }
  const std::array<std::pair<const char*, double>, 3> rates = {{
      {"attention_dropout", spec.dropout.attention},
      {"hidden_dropout", spec.dropout.hidden},
      {"embedding_dropout", spec.dropout.embedding},
  }};
  for (const auto& [field, rate] : rates) {
    if (rate >= 0 && rate < 1) continue;
    return SpecProblem{field, fmt::format("must be from 0 to below 1, not {}", rate)};
  }
  if (spec.window && !(*spec.window >= 1 && *spec.window <= kMaxSequence)) {
    return SpecProblem{"window",
                       fmt::format("must be from 1 to {}, not {}", kMaxSequence, *spec.window)};
  }
  if (!(spec.norm_eps > 0)) return SpecProblem{"norm_eps", "must be above 0"};
  if (!(spec.init_std > 0)) return SpecProblem{"init_std", "must be above 0"};
  const auto family = Registry().find(spec.family);
  if (family == Registry().end()) {
    return SpecProblem{"family", fmt::format("'{}' is no family of language models", spec.family)};
  }
  return family->second.find_problem(spec);
}

std::unique_ptr<LanguageModel> MakeModel(const ModelSpec& spec) {
  if (const auto problem = FindProblem(spec)) {
    throw UserError("model." + problem->field + ": " + problem->reason);
  }
  return WithParameters(Registry().at(spec.family).make(spec));
}

int64_t VocabularyBeside(int64_t stored, Settings& settings) {
  settings.Derive("vocab", stored);
  const int64_t vocab = settings.Int("vocab");
  if (vocab >= stored) return vocab;
  throw SettingError("vocab", fmt::format("{} tokens are fewer than the checkpoint's {}, of which "
                                          "none can be left out; remove it",
                                          vocab, stored));
}

int64_t SizeIn(const JsonObject& config, const std::string& key) {
  return config.RequireInt(key, 1, int64_t{1} << 31);
}

int64_t SizeIn(const JsonObject& config, const std::string& key, int64_t fallback) {
  return config.GetInt(key, fallback, 1, int64_t{1} << 31);
}

void RequireSwitch(const JsonObject& config, const std::string& key, bool needed) {
  if (config.GetBool(key, needed) != needed) {
    config.Fail(key, fmt::format("only {} is supported", needed));
  }
}

}  // namespace plimsoll::models
