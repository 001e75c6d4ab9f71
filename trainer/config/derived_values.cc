#include "trainer/config/derived_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <type_traits>

#include "base/amounts.h"
#include "base/error.h"
#include "data/source.h"
#include "trainer/config/check_techniques.h"
#include "trainer/config/follow_data.h"
#include "trainer/config/micro_batches.h"
#include "trainer/config/mistake_list.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/rank_counts.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

const std::string kFamily = "model.family";
constexpr int64_t kBytes = 256;  // the token ids of data.tokenizer: byte

void Require(const RunConfig& config, const std::string& key, const std::string& way_out) {
  if (!config.IsSet(key)) throw Missing(config, key, way_out);
}

// A key that counts steps, and the key that counts the same in epochs.
struct EpochKey {
  const char *steps, *epochs;
};
constexpr EpochKey kEpochKeys[] = {{"train.steps", "train.epochs"},
                                   {"train.eval_every", "train.eval_every_epochs"},
                                   {"schedule.warmup", "schedule.warmup_epochs"},
                                   {"schedule.milestones", "schedule.milestone_epochs"}};

// Whether a key that counts epochs is given; its default means that it is not.
bool IsGiven(const RunConfig& config, const char* key) {
  const Key& row = *FindKey(key);
  return row.Applies(config) && row.get(config) != row.default_value;
}

void CheckEpochKeys(const RunConfig& config) {
  for (const EpochKey& key : kEpochKeys) {
    if (!IsGiven(config, key.epochs) || !config.IsSet(key.steps)) continue;
    throw config.Error(key.epochs, fmt::format("says what {}{} says; keep one", key.steps,
                                               GivenAt(config, key.steps)));
  }
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void DropKeysWithoutEffect(RunConfig& config, std::vector<std::string>& warnings) {
  for (const Key& key : Schema()) {
    if (!config.IsSet(key.path) || key.Applies(config)) continue;
    if (key.Section() == "model") {
      if (!config.model.init_from.empty()) {
        throw config.Error(
            key.path,
            fmt::format("comes from the checkpoint of model.init_from{}; remove one of the two",
                        GivenAt(config, "model.init_from")));
      }
    }
    const std::string chosen = std::get<std::string>(FindKey(key.Chooser())->get(config));
    const bool of_others = !key.owners.empty() && !Contains(key.owners, chosen);
    const std::string when = of_others ? key.Chooser() : key.when_key;
    const std::string by = std::get<std::string>(FindKey(when)->get(config));
    if (key.Section() == "model") {
      throw config.Error(key.path, fmt::format("has no meaning for {}: {}; remove it", when, by));
    }
    warnings.push_back(fmt::format("{}: {}: has no effect with {}: {}", config.Origin(key.path),
                                   key.path, when, by));
    key.set(config, key.default_value);
    config.origins.erase(key.path);
  }
}

void RequireFamily(const RunConfig& config) {
  if (!config.model.init_from.empty()) return;
  Require(config, kFamily,
          fmt::format("give {}, or model.init_from", fmt::join(OwnersOf("model"), ", ")));
}

// Checks the files of token data, and of sources with the same keys.
void CheckFiles(const RunConfig& config) {
  const DataConfig& data = config.data;
  const auto applies = [&](const char* key) { return FindKey(key)->Applies(config); };
  if (!applies("data.train")) return;
  if (data.synthetic && !data.train.empty()) {
    throw config.Error("data.synthetic", fmt::format("true, but data.train names files{}; keep one",
                                                     GivenAt(config, "data.train")));
  }
  if (!data.synthetic && data.train.empty()) {
    throw Missing(
        config, "data.train",
        applies("data.synthetic") ? "name files, or set data.synthetic: true" : "name files");
  }
  if (!data.eval.empty() && data.eval_fraction > 0) {
    throw config.Error("data.eval_fraction",
                       fmt::format("holds out training text, but data.eval names files{}; keep one",
                                   GivenAt(config, "data.eval")));
  }
}

void DeriveModel(RunConfig& config) {
  const std::string& tokenizer = config.data.tokenizer;
  // The vocabulary of other tokenizers is known only after their files are read.
  const bool needs_vocab =
      config.model.init_from.empty() && FindKey("model.vocab")->Applies(config);
  if (needs_vocab && !config.IsSet("model.vocab") && !tokenizer.empty()) {
    config.model.settings.Set("vocab", int64_t{tokenizer == "byte" ? kBytes : 0});
  }
  FollowClasses(config);
  CompleteModel(config);
}

// Preference losses need pairs of answers. Pairs come from files of examples, and need packing that
// keeps the documents of a row separate.
void RequirePairs(const RunConfig& config) {
  const DataConfig& data = config.data;
  const std::string loss = fmt::format("preference.loss: {}{}", ToString(config.preference.loss),
                                       GivenAt(config, "preference.loss"));
  if (data.synthetic || data.format != DataFormat::kText) {
    throw config.Error("preference.loss",
                       fmt::format("{} needs pairs of answers; name files of them (*.jsonl with "
                                   "prompt, chosen, rejected) as data.train, and data.tokenizer",
                                   ToString(config.preference.loss)));
  }
  if (data.packing == Packing::kConcatenate) {
    if (!config.IsSet("data.packing")) {
      throw config.Error("preference.loss",
                         fmt::format("{} needs files of pairs (*.jsonl), whose answers the model "
                                     "keeps apart; name such files as data.train{}",
                                     ToString(config.preference.loss),
                                     config.model.attention == AttentionKind::kStored
                                         ? ", and leave out model.attention: stored"
                                         : ""));
    }
    throw config.Error("data.packing", fmt::format("concatenate cuts pairs into windows, and {} "
                                                   "needs them whole; use best_fit or none",
                                                   loss));
  }
  if (data.too_long == TooLong::kSplit) {
    throw config.Error(
        "data.too_long",
        fmt::format("split makes several examples of a long one, and {} needs pairs; "
                    "use truncate or drop",
                    loss));
  }
  if (data.loss_on == LossOn::kAll) {
    throw config.Error(
        "data.loss_on",
        fmt::format("all counts prompts, which both answers of a pair have in common "
                    "({}); use assistant",
                    loss));
  }
}

void DeriveData(RunConfig& config, std::vector<std::string>& warnings) {
  if (config.data.source != data::kTokens) {
    if (!config.preference.asked()) return;
    throw config.Error("preference.loss",
                       fmt::format("{} is learnt of token data, not of data.source: {}{}",
                                   ToString(config.preference.loss), config.data.source,
                                   GivenAt(config, "data.source")));
  }
  DataConfig& data = config.data;
  if (data.format == DataFormat::kText && data.tokenizer.empty() && !data.synthetic) {
    throw Missing(config, "data.tokenizer", "text needs one: byte, or a tokenizer.json");
  }
  const bool tokens = std::ranges::any_of(data.train, [](const TrainSource& source) {
    return std::ranges::any_of(source.files,
                               [](const std::string& name) { return name.ends_with(".bin"); });
  });
  if (data.format == DataFormat::kAuto && !data.tokenizer.empty() && !data.synthetic && !tokens) {
    data.format = DataFormat::kText;
  }
  FollowExamples(config);
  FollowBegins(config);
  if (config.preference.asked()) RequirePairs(config);
  // Resets a value that has no effect here, with a warning.
  auto reset = [&](const std::string& key, auto& value, const std::string& why) {
    using Value = std::remove_reference_t<decltype(value)>;
    if (value == Value()) return;
    value = Value();
    warnings.push_back(fmt::format("{}: {}: has no effect {}", config.Origin(key), key, why));
  };
  if (data.synthetic) {
    const std::string why = "with data.synthetic: true";
    reset("data.format", data.format, why);
    reset("data.exclude", data.exclude, why);
    reset("data.eval_fraction", data.eval_fraction, why);
    reset("data.document_separator", data.document_separator, why);
    reset("data.packing", data.packing, why);
    reset("data.documents", data.documents, why);
    reset("data.chat_template", data.chat_template, why);
    reset("data.loss_on", data.loss_on, why);
    reset("data.unreadable", data.unreadable, why);
  } else if (data.format != DataFormat::kText) {
    const std::string why = "on token files";
    reset("data.document_separator", data.document_separator, why);
    reset("data.chat_template", data.chat_template, why);
    reset("data.loss_on", data.loss_on, why);
    reset("data.unreadable", data.unreadable, why);
    if (data.packing != Packing::kConcatenate) {
      if (data.format == DataFormat::kAuto && !tokens) {  // with a tokenizer, files hold text
        throw config.Error("data.packing",
                           fmt::format("{} is for examples (*.jsonl), which need a tokenizer; set "
                                       "data.tokenizer",
                                       ToString(data.packing)));
      }
      throw config.Error("data.packing",
                         fmt::format("{} is for examples (*.jsonl), and data.train names token "
                                     "files{}; remove it, and use data.documents: apart if "
                                     "documents are to be kept apart",
                                     ToString(data.packing), GivenAt(config, "data.train")));
    }
    if (data.documents == Documents::kApart && data.tokenizer.empty()) {
      throw config.Error("data.documents",
                         "apart needs to know the token that ends documents; name the tokenizer "
                         "of the token files as data.tokenizer, or use joined");
    }
  }
  if (data.packing == Packing::kConcatenate) {
    reset("data.too_long", data.too_long, "unless data.packing is best_fit or none");
  } else {
    reset("data.documents", data.documents,
          fmt::format("with data.packing: {}, which keeps examples apart", ToString(data.packing)));
  }
  const int64_t vocab = config.model.settings.IntOr("vocab", 0);
  if (data.tokenizer == "byte" && vocab > 0 && vocab < kBytes) {
    throw config.Error("model.vocab",
                       fmt::format("{}, but data.tokenizer: byte gives 256 token ids{}", vocab,
                                   GivenAt(config, "data.tokenizer")));
  }
}

// Whether a setting given in addition to init_from may add parameters that the checkpoint lacks.
bool AsksForAnotherModel(const RunConfig& config) {
  const Settings& settings = config.model.settings;
  return std::ranges::any_of(settings.Names(), [&](const std::string& name) {
    return settings.IsGiven(name) && !name.ends_with("dropout") && name != "sequence";
  });
}

void DeriveSeeds(RunConfig& config, std::vector<std::string>& warnings) {
  if (!config.IsSet("model.seed")) {
    config.model.seed = config.train.seed;
  } else if (!config.model.init_from.empty() && !AsksForAnotherModel(config) &&
             (config.lora.rank == 0 || !config.lora.init_from.empty())) {
    warnings.push_back(
        fmt::format("{}: model.seed: has no effect: all weights come from model.init_from{}",
                    config.Origin("model.seed"), GivenAt(config, "model.init_from")));
  }
  if (!config.IsSet("data.seed")) config.data.seed = config.train.seed;
}

// Whether some data is held out from training for evaluations.
bool HoldsOut(const RunConfig& config) {
  const DataConfig& data = config.data;
  if (data.source == data::kTokens) {
    return data.synthetic || !data.eval.empty() || data.eval_fraction > 0;
  }
  const data::SourceKind* const kind = data::FindSource(data.source);
  return kind != nullptr && kind->holds_out && kind->holds_out(data.settings);
}

// The key with which the data source mixes samples; empty: it does not mix them.
std::string MixingKey(const RunConfig& config) {
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  if (kind == nullptr || !kind->mixes) return "";
  const std::string setting = kind->mixes(config.data.settings);
  return setting.empty() ? "" : "data." + setting;
}

// Mixed samples need a loss for two labels.
void DeriveMixing(RunConfig& config) {
  const Key* const mixed = FindKey("model.mixed_labels");
  const std::string key = MixingKey(config);
  if (key.empty() || mixed == nullptr || config.IsSet(mixed->path)) return;
  if (!mixed->Applies(config)) throw NoSecondLabels(config);
  config.model.settings.Set(mixed->Name(), true, config.Origin(key));
}

void DeriveTraining(RunConfig& config, std::vector<std::string>& warnings) {
  TrainConfig& train = config.train;
  const bool held_out = HoldsOut(config);
  const bool files = FindKey("data.eval")->Applies(config);
  const bool evaluates = train.eval_every > 0 || train.eval_every_epochs > 0;
  if (train.early_stop > 0 && (!evaluates || !held_out)) {
    throw config.Error("train.early_stop",
                       !evaluates ? "needs evaluations; set train.eval_every"
                       : files    ? "needs held-out data; set data.eval or data.eval_fraction"
                                  : "needs held-out data, which this data.source has not");
  }
  if (!held_out) {
    for (const char* key : {"train.eval_every", "train.eval_every_epochs"}) {
      if (!config.IsSet(key) || !evaluates) continue;
      warnings.push_back(fmt::format("{}: {}: has no effect without {}", config.Origin(key), key,
                                     files ? "data.eval or data.eval_fraction" : "held-out data"));
    }
    train.eval_every = 0;
    train.eval_every_epochs = 0;
  }
  if (train.sample_every > 0 && config.data.tokenizer.empty()) {
    throw config.Error("train.sample_every", "needs data.tokenizer to turn tokens into text");
  }
  // Adapters begin at zero, so their gradients grow in the first steps.
  if (config.lora.rank > 0 && !config.IsSet("amp.fp8.margin")) config.amp.fp8_margin = 2;
}

void CheckMilestones(const RunConfig& config) {
  const ScheduleConfig& schedule = config.schedule;
  const bool in_epochs = !schedule.milestone_epochs.empty();
  const char* const key = in_epochs ? "schedule.milestone_epochs" : "schedule.milestones";
  const std::vector<double>& given = in_epochs ? schedule.milestone_epochs : schedule.milestones;
  if (given.empty()) {
    throw Missing(config, key,
                  "multistep needs the steps at which the learning rate falls, or "
                  "schedule.milestone_epochs");
  }
  if (!std::ranges::is_sorted(given, std::ranges::less_equal())) {
    throw config.Error(key, "are to rise from one to the next");
  }
  if (!in_epochs && std::ranges::any_of(given, [](double m) { return m != std::floor(m); })) {
    throw config.Error(key, "are whole steps; schedule.milestone_epochs counts in epochs");
  }
}

// Warns of warm-ups that are shortened (ScheduleConfig::WarmUpWithin), in the run and its
// objectives.
void WarnOfWarmUps(const RunConfig& config, std::vector<std::string>& warnings) {
  if (!EpochsKey(config).empty() && config.train.steps_per_epoch == 0) return;
  const int64_t steps = config.train.steps;
  const auto warn = [&](const ScheduleConfig& schedule, const std::string& prefix) {
    if (schedule.warmup <= steps) return;
    const std::string key =
        prefix + (schedule.warmup_epochs > 0 ? "schedule.warmup_epochs" : "schedule.warmup");
    const char* const by = config.train.epochs > 0 ? "train.epochs" : "train.steps";
    warnings.push_back(
        fmt::format("{}: {}: {}, but train.steps is {}{}; shortened to {}, a tenth of them",
                    config.Origin(key), key, Counted(schedule.warmup, "step"), steps,
                    GivenAt(config, by), schedule.WarmUpWithin(steps)));
  };
  warn(config.schedule, "");
  for (const auto& [name, objective] : config.objectives) {
    const std::string prefix = fmt::format("{}.{}.", kObjectives, name);
    if (config.IsSet(prefix + "schedule.warmup") ||
        config.IsSet(prefix + "schedule.warmup_epochs")) {
      warn(objective.schedule, prefix);
    }
  }
}

void DeriveSchedule(RunConfig& config) {
  ScheduleConfig& schedule = config.schedule;
  if (schedule.name == ScheduleName::kMultistep) CheckMilestones(config);
  if (!EpochsKey(config).empty() && config.train.steps_per_epoch == 0) return;
  const int64_t steps = config.train.steps;
  if (FindKey("schedule.min_lr")->Applies(config) && schedule.min_lr > config.optimizer.lr) {
    throw config.Error("schedule.min_lr",
                       fmt::format("{} is more than optimizer.lr {}{}; lower it", schedule.min_lr,
                                   config.optimizer.lr, GivenAt(config, "optimizer.lr")));
  }
  if (schedule.name != ScheduleName::kWsd) return;
  const bool by_steps = config.IsSet("schedule.decay_steps");
  if (by_steps && config.IsSet("schedule.decay_fraction")) {
    throw config.Error("schedule.decay_steps",
                       fmt::format("says what schedule.decay_fraction{} says; keep one",
                                   GivenAt(config, "schedule.decay_fraction")));
  }
  if (!by_steps) {
    schedule.decay_steps = std::llround(schedule.decay_fraction * static_cast<double>(steps));
  }
  const int64_t warmup = schedule.WarmUpWithin(steps);
  if (warmup + schedule.decay_steps > steps) {
    throw config.Error(
        by_steps ? "schedule.decay_steps" : "schedule.decay_fraction",
        fmt::format("warmup {} + decay {} = {}, but train.steps is {}{}", warmup,
                    schedule.decay_steps, Counted(warmup + schedule.decay_steps, "step"), steps,
                    GivenAt(config, "train.steps")));
  }
}

// Sets Muon's own defaults. Objectives are resolved separately.
void DeriveOptimizer(RunConfig& config) {
  if (config.optimizer.name != OptimizerName::kMuon) return;
  if (!config.IsSet("optimizer.momentum")) config.optimizer.momentum = 0.95;
  if (!config.IsSet("optimizer.nesterov")) config.optimizer.nesterov = true;
}

void DeriveAmp(RunConfig& config, std::vector<std::string>& warnings) {
  const AmpConfig& amp = config.amp;
  const bool fp16 = amp.dtype == Dtype::kFp16;
  const std::string dtype = ToString(amp.dtype);
  auto warn = [&](const std::string& key, const std::string& text) {
    warnings.push_back(fmt::format("{}: {}: {}", config.Origin(key), key, text));
  };
  if (fp16 && !amp.master_weights) {
    throw config.Error("amp.master_weights",
                       fmt::format("false needs amp.dtype: bf16{}; remove it, or use bf16, whose "
                                   "updates can round stochastically",
                                   GivenAt(config, "amp.dtype")));
  }
  if (amp.fp8_recipe != Fp8Recipe::kNone && !fp16 && amp.dtype != Dtype::kBf16) {
    throw config.Error("amp.fp8.recipe",
                       fmt::format("{} needs amp.dtype: bf16 or fp16, not {}{}; set one of them, "
                                   "or remove it",
                                   ToString(amp.fp8_recipe), dtype, GivenAt(config, "amp.dtype")));
  }
  const bool dynamic =
      amp.loss_scale == LossScale::kDynamic || (amp.loss_scale == LossScale::kAuto && fp16);
  if (dynamic && amp.init_scale < amp.min_scale) {
    if (config.IsSet("amp.init_scale")) {
      throw config.Error(
          "amp.init_scale",
          fmt::format("{:g} is below amp.min_scale {:g}{}; raise it, or lower the "
                      "other",
                      amp.init_scale, amp.min_scale, GivenAt(config, "amp.min_scale")));
    }
    throw config.Error(
        "amp.min_scale",
        fmt::format("{:g} is above amp.init_scale {:g}; lower it, or raise the other",
                    amp.min_scale, amp.init_scale));
  }
  if (fp16 && amp.loss_scale == LossScale::kNone) {
    warn("amp.loss_scale",
         "none with amp.dtype: fp16 loses gradients below 6e-8; remove it, or set dynamic");
  }
  if (!fp16 && (dynamic || amp.loss_scale == LossScale::kStatic)) {
    warn("amp.loss_scale",
         fmt::format("{} is of no use with amp.dtype: {}, whose gradients reach down to 1e-38; "
                     "remove it",
                     ToString(amp.loss_scale), dtype));
  }
  if (!fp16 && amp.loss_scale == LossScale::kAuto) {
    for (const char* name : {"amp.init_scale", "amp.growth_factor", "amp.backoff_factor",
                             "amp.growth_interval", "amp.min_scale", "amp.max_skips"}) {
      const Key& key = *FindKey(name);
      if (key.get(config) == key.default_value) continue;
      warn(name, fmt::format("has no effect with amp.dtype: {}, whose loss is not scaled", dtype));
      key.set(config, key.default_value);
      config.origins.erase(name);
    }
  }
}

void DerivePaths(RunConfig& config) {
  if (config.run.dir.empty()) {
    const std::string stem = std::filesystem::path(config.file).stem().string();
    config.run.dir = "runs/" + (stem.empty() || stem == "." || stem == ".." ? "run" : stem);
  }
  const bool stops = !config.debug.stop_after.empty() && config.debug.dump_programs.empty();
  if (stops || config.debug.dump_programs == "true")
    config.debug.dump_programs = config.run.dir + "/programs";
}

}  // namespace

UserError NoSecondLabels(const RunConfig& config) {
  return config.Error(MixingKey(config),
                      "gives images two labels, and the model has no loss of two; leave it out");
}

std::string EpochsKey(const RunConfig& config) {
  for (const EpochKey& key : kEpochKeys) {
    if (IsGiven(config, key.epochs)) return key.epochs;
  }
  for (const auto& [name, objective] : config.objectives) {
    for (const EpochKey& key : kEpochKeys) {
      if (!IsGiven(config.ForObjective(name), key.epochs)) continue;
      return fmt::format("{}.{}.{}", kObjectives, name, key.epochs);
    }
  }
  return "";
}

void FollowEpochs(RunConfig& config, int64_t epoch_samples, int64_t step_samples,
                  std::vector<std::string>& warnings) {
  const double per_epoch = static_cast<double>(epoch_samples) / static_cast<double>(step_samples);
  // The number of steps that read `epochs` epochs. The factor keeps rounding errors from adding a
  // step to an integral number.
  const auto steps = [&](double epochs) {
    const double exact = epochs * per_epoch;
    return static_cast<int64_t>(std::ceil(exact * (1 - 1e-12)));
  };
  TrainConfig& train = config.train;
  train.steps_per_epoch = per_epoch;
  if (train.epochs > 0) train.steps = std::max<int64_t>(1, steps(train.epochs));
  if (train.eval_every_epochs > 0) {
    train.eval_every = std::max<int64_t>(1, steps(train.eval_every_epochs));
  }
  const auto follow = [&](RunConfig& one) {
    ScheduleConfig& schedule = one.schedule;
    if (schedule.warmup_epochs > 0) schedule.warmup = steps(schedule.warmup_epochs);
    if (!schedule.milestone_epochs.empty()) {
      schedule.milestones.clear();
      for (const double epoch : schedule.milestone_epochs) {
        schedule.milestones.push_back(static_cast<double>(steps(epoch)));
      }
    }
    DeriveSchedule(one);
  };
  for (auto& [name, objective] : config.objectives) {
    RunConfig alone = config.ForObjective(name);
    follow(alone);
    objective.schedule = alone.schedule;
  }
  follow(config);
  WarnOfWarmUps(config, warnings);
}

// Adapters are stored without their base model, and no file stores a random base model.
void DeriveTrial(RunConfig& config, std::vector<std::string>& warnings) {
  if (!config.lora.asked() || !config.model.init_from.empty() || !config.save.model) return;
  config.save.model = false;
  warnings.push_back(fmt::format(
      "{}: lora: a trial on made-up samples, which leaves no adapter: its model starts at random; "
      "to train one, name a Hugging Face folder in model.init_from",
      config.Origin(config.lora.init_from.empty() ? "lora.rank" : "lora.init_from")));
}

void DeriveValues(RunConfig& config, const RankCount& ranks, std::vector<std::string>& warnings) {
  RequireFamily(config);
  DropKeysWithoutEffect(config, warnings);
  CheckFiles(config);
  CompleteSource(config);
  DeriveModel(config);
  DeriveData(config, warnings);
  DeriveMixing(config);
  ParallelConfig& parallel = config.parallel;
  if (parallel.data && !parallel.tensor) {
    parallel.tensor = std::max<int64_t>(1, ranks.count / (*parallel.data * parallel.pipeline));
  }
  if (ranks.started) RequireStarted(config, ranks);
  MistakeList mistakes;
  mistakes.Try([&] { CheckEpochKeys(config); });
  mistakes.Try([&] { DeriveTraining(config, warnings); });
  mistakes.Try([&] { DeriveSeeds(config, warnings); });
  mistakes.Try([&] { DeriveBatch(config, ranks.count); });
  // The steps are unknown until the data is counted.
  if (config.train.epochs > 0) config.train.steps = 0;
  mistakes.Try([&] { DeriveSchedule(config); });
  DeriveOptimizer(config);
  mistakes.Try([&] { DeriveAmp(config, warnings); });
  mistakes.Throw();
  CheckTechniques(config, ranks, warnings);
  DeriveTrial(config, warnings);
  WarnOfWarmUps(config, warnings);
  DerivePaths(config);
}

bool FollowsEpochs(const RunConfig& config, const std::string& key) {
  if (config.IsSet(key)) return false;
  if (key == "schedule.decay_steps") return !EpochsKey(config).empty();
  return std::ranges::any_of(kEpochKeys, [&](const EpochKey& pair) {
    return key == pair.steps && IsGiven(config, pair.epochs);
  });
}

bool Follows(const RunConfig& config, const std::string& key) {
  if (config.IsSet(key)) return false;
  if (FollowsEpochs(config, key)) return true;
  if (key == "train.accumulate")
    return config.train.global_batch || config.train.global_batch_tokens;
  if (key == "model.seed" || key == "data.seed" || key == "schedule.decay_steps") return true;
  return key == "schedule.decay_fraction" && config.IsSet("schedule.decay_steps");
}

}  // namespace plimsoll::config
