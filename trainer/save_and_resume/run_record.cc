#include "trainer/save_and_resume/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/amounts.h"
#include "base/axes.h"
#include "formats/json.h"
#include "trainer/config/derived_values.h"
#include "trainer/config/schema.h"
#include "trainer/resolve/run_device.h"
#include "trainer/save_and_resume/earlier_defaults.h"

namespace plimsoll::trainer {
namespace {

using formats::JsonObject;
using nlohmann::json;

// The key that a path means, even if the path names an objective.
std::string MeantKey(const std::string& path) {
  const config::Key* const key = config::FindMeantKey(path);
  return key == nullptr ? path : key->path;
}

// Keys of dropout rates that default to model.dropout.
constexpr const char* kDropoutPlaces[] = {"model.attention_dropout", "model.hidden_dropout",
                                          "model.embedding_dropout"};
// Defaults to model.hidden_dropout.
constexpr const char* kClassifierDropout = "model.classifier_dropout";
bool IsDropoutPlace(const std::string& key) {
  return key == kClassifierDropout ||
         std::ranges::find(kDropoutPlaces, key) != std::end(kDropoutPlaces);
}

// Whether the key determines which tensors exist and what their bytes mean.
bool IsFixed(const std::string& path) {
  const std::string key = MeantKey(path);
  static const char* const kFixed[] = {
      "data.tokenizer", "optimizer.name",      "amp.dtype",   "optimizer.state_dtype",
      "amp.loss_scale", "amp.master_weights",  "amp.low_ops", "amp.fp32_ops",
      "train.freeze",   "lora.rank",           "lora.alpha",  "lora.targets",
      "lora.rslora",    "lora.modules_to_save"};
  return std::ranges::find(kFixed, key) != std::end(kFixed);
}

// Whether the key determines the computed values, but not their meaning.
bool SetsCourse(const std::string& path) {
  const std::string key = MeantKey(path);
  static const char* const kCourse[] = {"amp.grad_dtype",
                                        "model.attention",
                                        "model.dropout",
                                        "model.sequence",
                                        "train.steps",
                                        "train.epochs",
                                        "train.seed",
                                        "lora.dropout",
                                        "optimizer.lr",
                                        "optimizer.layer_decay",
                                        "optimizer.betas",
                                        "optimizer.eps",
                                        "optimizer.momentum",
                                        "optimizer.nesterov",
                                        "optimizer.newton_schulz_steps",
                                        "optimizer.adjust_lr",
                                        "optimizer.ema",
                                        "optimizer.ema_warmup",
                                        "optimizer.clip_grad_norm",
                                        "optimizer.clip_by",
                                        "optimizer.weight_decay",
                                        "optimizer.weight_decay_groups"};
  // All keys that determine the samples, for any source.
  if (key.starts_with("data.")) {
    return key != "data.eval" && key != "data.workers" && key != "data.class_names";
  }
  return key.starts_with("schedule.") || key.starts_with("preference.") ||
         (key.starts_with("amp.") && key != "amp.max_skips") || IsDropoutPlace(key) ||
         std::ranges::find(kCourse, key) != std::end(kCourse);
}

bool IsOverridden(const config::RunConfig& config, const std::string& key) {
  return config.IsSet(key) && config.Origin(key) == "--set";
}

using Texts = std::map<std::string, std::string>;

// Whether `key` has the value of `other`, both in the snapshot and now.
bool Follows(const std::string& key, const std::string& other, const Texts& saved,
             const config::RunConfig& config) {
  const auto one = saved.find(key), two = saved.find(other);
  return !config.IsSet(key) && one != saved.end() && two != saved.end() &&
         one->second == two->second;
}

// Whether `key` takes its value from another key, which is compared instead.
bool OnlyFollows(const std::string& key, const Texts& saved, const config::RunConfig& config) {
  if (config::FollowsEpochs(config, key)) return true;
  if (key == "data.seed") return Follows(key, "train.seed", saved, config);
  if (key == kClassifierDropout && Follows(key, "model.hidden_dropout", saved, config)) return true;
  return IsDropoutPlace(key) && Follows(key, "model.dropout", saved, config);
}

bool OverridesBatch(const config::RunConfig& config) {
  return IsOverridden(config, "train.global_batch") ||
         IsOverridden(config, "train.global_batch_tokens") ||
         IsOverridden(config, "train.micro_batch") || IsOverridden(config, "train.accumulate");
}

std::map<std::string, std::string> Strings(const JsonObject& object) {
  std::map<std::string, std::string> strings;
  for (const std::string& key : object.Keys()) strings[key] = object.RequireString(key);
  return strings;
}

// Adds "model.layers: 3, in the snapshot 2" for each key that both have, that differs and that
// `matters` accepts.
template <typename Matters>
void Compare(const std::map<std::string, std::string>& saved,
             const std::map<std::string, std::string>& now, const Matters& matters,
             std::vector<std::string>& differences) {
  for (const auto& [key, value] : now) {
    const auto found = saved.find(key);
    if (found == saved.end() || found->second == value || !matters(key)) continue;
    differences.push_back(fmt::format("{}: {}, in the snapshot {}", key, value, found->second));
  }
}

// Whether --set selects other training tokens.
bool OverridesTokens(const config::RunConfig& config) {
  constexpr const char* kKeys[] = {"data.train",         "data.exclude", "data.eval_fraction",
                                   "data.chat_template", "data.loss_on", "data.document_separator",
                                   "data.begin",         "data.end",     "data.unreadable"};
  return std::ranges::any_of(kKeys, [&](const char* key) { return IsOverridden(config, key); });
}

// Compares the data: files of other lengths give other windows, and changed texts give other
// tokens.
void CompareSources(const RunRecord& saved, const RunRecord& now,
                    std::vector<std::string>& differences) {
  if (saved.train_tokens != now.train_tokens) {
    differences.push_back(fmt::format("data.train: {}, in the snapshot {}",
                                      Counted(now.train_tokens, "token"), saved.train_tokens));
  } else if (saved.source_tokens.size() == now.source_tokens.size() &&
             saved.source_tokens != now.source_tokens) {
    differences.push_back(fmt::format("data.train: sources of {} tokens, in the snapshot {}",
                                      fmt::join(now.source_tokens, ", "),
                                      fmt::join(saved.source_tokens, ", ")));
  } else if (saved.source_checksums.size() == now.source_checksums.size()) {
    for (size_t i = 0; i < now.source_checksums.size(); ++i) {
      const std::string &before = saved.source_checksums[i], &after = now.source_checksums[i];
      if (before.empty() || after.empty() || before == after) continue;
      differences.push_back(fmt::format(
          "data.train{}: other tokens than in the snapshot, as many (checksum {}, in the snapshot "
          "{}): the texts, the chat template or the tokenizer's files have changed",
          now.source_checksums.size() == 1 ? "" : fmt::format("[{}]", i), after, before));
    }
  }
}

LossHistory ParseLosses(const JsonObject& object) {
  LossHistory history;
  for (const double loss : object.RequireFloats("losses")) {
    history.losses.push_back(static_cast<float>(loss));
  }
  const std::vector<double> limits = object.RequireFloats("limits");
  if (limits.size() != history.limits.size()) object.Fail("limits", "are not two");
  std::ranges::transform(limits, history.limits.begin(),
                         [](double limit) { return static_cast<float>(limit); });
  return history;
}

StepCounts ParseCounts(const JsonObject& object) {
  return {.updates = object.RequireInt("updates", 0),
          .overflows = object.RequireInt("overflows", 0),
          .spikes = object.RequireInt("spikes", 0),
          .without_targets = object.RequireInt("without_targets", 0)};
}

// The losses of a single objective are members of the object itself.
DivergenceState ParseDivergence(const JsonObject& object) {
  DivergenceState state;
  if (object.Has("objectives")) {
    state.objectives.clear();
    for (const JsonObject& objective : object.RequireObjects("objectives")) {
      state.objectives.push_back(ParseLosses(objective));
    }
  } else {
    state.objectives = {ParseLosses(object)};
  }
  state.lr_factor = object.RequireFloat("lr_factor");
  state.rollbacks = object.RequireInt("rollbacks", 0);
  if (object.Has("counts")) state.counts = ParseCounts(object.RequireObject("counts"));
  return state;
}

// Earlier versions may have had fewer axes; missing axes have one rank. The pipeline axis exists
// only with several stages, as in a configuration.
Mesh ParseMesh(const JsonObject& object) {
  std::vector<MeshAxis> axes = MeshOfOne().axes();
  for (MeshAxis& axis : axes) axis.ranks = object.GetInt(axis.name, 1, 1);
  const int64_t stages = object.GetInt(std::string(kPipelineAxis), 1, 1);
  if (stages > 1) axes.insert(axes.begin(), PipelineAxis(stages));
  return Mesh(std::move(axes));
}

json ToJson(const LossHistory& history) {
  return {{"losses", history.losses}, {"limits", history.limits}};
}

json ToJson(const DivergenceState& state) {
  json object = {{"lr_factor", state.lr_factor}, {"rollbacks", state.rollbacks}};
  const StepCounts& counts = state.counts;
  object["counts"] = {{"updates", counts.updates},
                      {"overflows", counts.overflows},
                      {"spikes", counts.spikes},
                      {"without_targets", counts.without_targets}};
  if (state.objectives.size() == 1) {
    object.update(ToJson(state.objectives.front()));
    return object;
  }
  object["objectives"] = json::array();
  for (const LossHistory& history : state.objectives) {
    object["objectives"].push_back(ToJson(history));
  }
  return object;
}

json ToJson(const EvaluationState& state) {
  if (state.last < 0) return nullptr;
  json object = {{"last", state.last},
                 {"best", state.best},
                 {"best_step", state.best_step},
                 {"without_gain", state.without_gain}};
  // Default values are omitted, as in the records of earlier versions.
  if (state.monitor != EvaluationState().monitor) object["monitor"] = state.monitor;
  if (state.larger_is_better) object["larger_is_better"] = true;
  return object;
}

EvaluationState ParseEvaluation(const JsonObject& object) {
  EvaluationState state;
  state.last = object.RequireInt("last", 0);
  // JSON cannot represent infinity, so the value is missing if no evaluation was finite.
  state.best = object.GetFloat("best", state.best);
  state.best_step = object.RequireInt("best_step", -1);
  state.without_gain = object.RequireInt("without_gain", 0);
  state.monitor = object.GetString("monitor", state.monitor);
  state.larger_is_better = object.GetBool("larger_is_better", false);
  return state;
}

}  // namespace

RunRecord RecordOf(const config::RunConfig& config, const models::Model& model) {
  RunRecord record;
  for (const config::Key& key : config::Schema()) {
    if (!key.Applies(config)) continue;
    const std::string text = key.Text(config);
    if (!text.empty()) record.config[key.path] = text;
  }
  for (const auto& [name, objective] : config.objectives) {
    for (const auto& [key, text] : objective.own) {
      record.config[fmt::format("{}.{}.{}", config::kObjectives, name, key)] = text;
    }
  }
  record.model = model.description();
  record.class_names = model.class_names();
  record.mesh = MeshFrom(config);
  record.zero = config.parallel.zero.value_or(0);
  return record;
}

std::string ToJson(const RunRecord& record) {
  json mesh = {{"zero", record.zero}};
  for (const MeshAxis& axis : record.mesh.axes()) mesh[axis.name] = axis.ranks;
  json object{{"config", record.config},
              {"model", record.model},
              {"plan", record.plan},
              {"mesh", mesh},
              {"train_tokens", record.train_tokens},
              {"source_tokens", record.source_tokens},
              {"sequences_per_step", record.sequences_per_step},
              {"sequences", record.sequences},
              {"evaluation", ToJson(record.evaluation)},
              {"divergence", ToJson(record.divergence)},
              {"dropout_map", record.dropout_map},
              {"label_resampling", record.label_resampling}};
  if (!record.source_checksums.empty()) object["source_checksums"] = record.source_checksums;
  if (!record.base.empty()) object["base"] = record.base;
  if (!record.class_names.empty()) object["class_names"] = record.class_names;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

RunRecord ParseRunRecord(const std::string& text, const std::string& where) {
  const JsonObject object = JsonObject::FromText(text, where);
  const JsonObject mesh = object.RequireObject("mesh");
  RunRecord record{.config = Strings(object.RequireObject("config")),
                   .model = Strings(object.RequireObject("model")),
                   .plan = object.RequireString("plan"),
                   .mesh = ParseMesh(mesh),
                   .zero = mesh.RequireInt("zero", 0, 3),
                   .train_tokens = object.RequireInt("train_tokens", 0),
                   .sequences_per_step = object.RequireInt("sequences_per_step", 1),
                   .sequences = object.RequireInt("sequences", 0)};
  if (object.Has("class_names")) record.class_names = object.RequireStrings("class_names");
  if (object.Has("source_tokens")) record.source_tokens = object.RequireInts("source_tokens");
  if (object.Has("source_checksums")) {
    record.source_checksums = object.RequireStrings("source_checksums");
  }
  // Earlier versions had one seed for both keys.
  if (const auto seed = record.config.find("train.seed"); seed != record.config.end()) {
    record.config.try_emplace("data.seed", seed->second);
  }
  AddEarlierDefaults(record.config);
  if (object.Has("divergence"))
    record.divergence = ParseDivergence(object.RequireObject("divergence"));
  if (object.Has("evaluation")) {
    record.evaluation = ParseEvaluation(object.RequireObject("evaluation"));
  }
  // Versions with map 1 did not record it.
  record.dropout_map = object.GetInt("dropout_map", 1, 1);
  // Nor did those with this way to resample labels.
  record.label_resampling = object.GetInt("label_resampling", 1, 1);
  record.base = object.GetString("base", "");
  return record;
}

std::string DropoutWarning(const RunRecord& saved, const models::DropoutRates& rates,
                           double adapters_rate, const std::string& path) {
  if (saved.dropout_map == kDropoutMap || !(rates.any() || adapters_rate > 0)) return "";
  if (saved.dropout_map == 2) {
    // The masks differ only if dropout is applied to tensors that tensor ranks share: heads, the
    // adapters' inputs from them, rows of a sequence.
    const auto sequence = saved.config.find("parallel.sequence");
    const bool rows = sequence != saved.config.end() && sequence->second == "true";
    const bool shared = rates.attention > 0 || adapters_rate > 0 || rows;
    if (!shared || !saved.mesh.Has(kTensorAxis) || saved.mesh.ranks(kTensorAxis) == 1) return "";
  }
  return fmt::format(
      "{}: written by a version of plimsoll whose dropout drew other masks; from here on losses "
      "differ from what it would have given, as with another train.seed",
      path);
}

std::string LabelsWarning(const RunRecord& saved, const std::string& path) {
  const auto source = saved.config.find("data.source");
  if (source == saved.config.end() || source->second != "volumes") return "";
  if (saved.label_resampling == data::kLabelResampling || !saved.config.contains("data.spacing")) {
    return "";
  }
  return fmt::format(
      "{}: written by a version of plimsoll that resampled labels to data.spacing in another way, "
      "to the nearest voxel; from here on labels lie up to half a voxel elsewhere, and losses and "
      "Dice differ from what it would have given",
      path);
}

void RequireContinues(const RunRecord& saved, const RunRecord& now, const config::RunConfig& config,
                      const std::string& path) {
  std::vector<std::string> fixed, course;
  // Settings of the computed values, which some models list among their shape's, are compared
  // below.
  Compare(
      saved.model, now.model, [](const std::string& key) { return !SetsCourse(key); }, fixed);
  Compare(saved.config, now.config, IsFixed, fixed);
  if (!fixed.empty()) {
    throw UserError(
        fmt::format("{}: cannot continue {}: {}; start a run of its own, or name the "
                    "snapshot of such a run",
                    config.file, path, fmt::join(fixed, "; ")));
  }
  if (!saved.base.empty() && saved.base != now.base) {
    throw UserError(
        fmt::format("{}: cannot continue {}: model.init_from, {}, holds other weights than the "
                    "adapter was trained over until then; put those back, or start a run of its "
                    "own from that run's adapter (lora.init_from)",
                    config.file, path, config.model.init_from));
  }
  Texts before = saved.config;
  // Earlier versions had a single dropout rate.
  if (const auto rate = before.find("model.dropout"); rate != before.end()) {
    for (const char* place : kDropoutPlaces) before.try_emplace(place, rate->second);
    before.try_emplace(kClassifierDropout, before.at("model.hidden_dropout"));
  }
  Compare(
      before, now.config,
      [&](const std::string& key) {
        return SetsCourse(key) && !IsFixed(key) && !IsOverridden(config, key) &&
               !OnlyFollows(key, before, config);
      },
      course);
  if (saved.sequences_per_step != now.sequences_per_step && !OverridesBatch(config)) {
    course.push_back(fmt::format("train.global_batch: {} a step, in the snapshot {}",
                                 Counted(now.sequences_per_step, "sequence"),
                                 saved.sequences_per_step));
  }
  if (!OverridesTokens(config)) CompareSources(saved, now, course);
  if (course.empty()) return;
  throw UserError(
      fmt::format("{}: would not continue {} as it began: {}; repeat such a key with --set if its "
                  "value is meant to change, or restore it",
                  config.file, path, fmt::join(course, "; ")));
}

}  // namespace plimsoll::trainer
