#include "trainer/config/check_techniques.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/amounts.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

void CheckLora(const RunConfig& config, std::vector<std::string>& warnings) {
  const LoraConfig& lora = config.lora;
  const char* const asks = lora.init_from.empty() ? "lora.rank" : "lora.init_from";
  if (!lora.asked()) {
    for (const char* key :
         {"lora.alpha", "lora.targets", "lora.dropout", "lora.rslora", "lora.modules_to_save"}) {
      const Key& row = *FindKey(key);
      if (row.get(config) == row.default_value) continue;
      warnings.push_back(
          fmt::format("{}: {}: has no effect without lora.rank", config.Origin(key), key));
    }
    return;
  }
  if (config.model.init_from.empty() && !MakesUpData(config)) {
    throw config.Error(asks,
                       "needs model.init_from: adapters are stored without their model, which has "
                       "to be there again when they are used; name a Hugging Face folder, such as "
                       "one that plimsoll export wrote");
  }
  if (!config.train.freeze.empty()) {
    throw config.Error("train.freeze", fmt::format("with adapters the model is frozen ({}) but for "
                                                   "lora.modules_to_save; remove it",
                                                   config.Origin(asks)));
  }
  if (lora.targets.empty()) {
    throw config.Error("lora.targets", "is empty; name linear layers, or all-linear");
  }
}

void CheckCheckpointing(const RunConfig& config, std::vector<std::string>& warnings) {
  const CheckpointingConfig& c = config.checkpointing;
  if (c.policy == CheckpointPolicy::kSelective && c.recompute.empty()) {
    throw config.Error(
        "checkpointing.recompute",
        "is empty, which leaves policy `selective` nothing to do; name what to "
        "recompute, such as [norms, activations], or set checkpointing.policy: none");
  }
  for (const auto& [key, patterns] :
       {std::pair("checkpointing.recompute", &c.recompute),
        std::pair("checkpointing.save", &c.save), std::pair("checkpointing.offload", &c.offload)}) {
    if (std::ranges::find(*patterns, "parameters") == patterns->end()) continue;
    throw config.Error(key,
                       "parameters are no activations: parallel.reshard_after_forward says whether "
                       "ZeRO 3 gathers them again; remove it");
  }
  const int64_t layers = config.model.settings.IntOr("layers", 0);
  if (c.policy == CheckpointPolicy::kEvery && layers > 0 && c.every >= layers) {
    warnings.push_back(
        fmt::format("{}: checkpointing.every: {} of {}: the whole model is recomputed at "
                    "once, which saves next to nothing; about {} would do",
                    config.Origin("checkpointing.every"), c.every, Counted(layers, "block"),
                    std::max<int64_t>(1, std::llround(std::sqrt(static_cast<double>(layers))))));
  }
}

void CheckAverages(const RunConfig& config, std::vector<std::string>& warnings) {
  if (config.optimizer.ema_warmup && config.optimizer.ema == 0) {
    const char* const key = "optimizer.ema_warmup";
    warnings.push_back(
        fmt::format("{}: {}: has no effect without optimizer.ema", config.Origin(key), key));
  }
}

void CheckInBackward(const RunConfig& config, std::vector<std::string>& warnings) {
  const char* const key = "optimizer.in_backward";
  if (config.optimizer.in_backward != OnOrAuto::kOn) return;
  const std::string reason = WaitsForGradients(config);
  if (reason.empty()) return;
  warnings.push_back(fmt::format("{}: {}: has no effect: {}", config.Origin(key), key, reason));
}

void CheckPlaces(const RunConfig& config, std::vector<std::string>& warnings) {
  const TrainConfig& train = config.train;
  const auto warn = [&](const char* key, const char* why) {
    warnings.push_back(fmt::format("{}: {}: {}", config.Origin(key), key, why));
  };
  if (config.memory.gradients == PlaceOrAuto::kHost) {
    if (train.micro_batch > 0 && train.accumulate == 1 && !config.parallel.open_mesh()) {
      warn("memory.gradients",
           "host has no effect without train.accumulate: gradients of one micro-step are "
           "temporaries");
    } else if (train.blocks_first == OnOrAuto::kOn &&
               config.optimizer.in_backward == OnOrAuto::kOn && WaitsForGradients(config).empty()) {
      warn("memory.gradients",
           "host has no effect with train.blocks_first and optimizer.in_backward: updates take "
           "gradients block by block");
    }
  }
  if (config.memory.host_blocks && config.memory.weights == PlaceOrAuto::kDevice &&
      config.memory.gradients == PlaceOrAuto::kDevice &&
      config.optimizer.place == PlaceOrAuto::kDevice) {
    warn("memory.host_blocks",
         "has no effect without memory.weights, memory.gradients or optimizer.place: host");
  }
}

void CheckBlocksFirst(const RunConfig& config, std::vector<std::string>& warnings) {
  const char* const key = "train.blocks_first";
  if (config.train.blocks_first != OnOrAuto::kOn) return;
  if (config.train.micro_batch == 0) {
    throw config.Error(key,
                       "is not possible with train.micro_batch: auto, which may cut the batch into "
                       "more micro-steps than a program can hold; give a number");
  }
  if (config.train.accumulate == 1 && !config.parallel.open_mesh()) {
    warnings.push_back(
        fmt::format("{}: {}: has no effect with one micro-step a step "
                    "(train.accumulate: 1)",
                    config.Origin(key), key));
  }
}

void CheckDivergence(const RunConfig& config) {
  if (config.divergence.action != DivergenceAction::kRollback) return;
  const TrainConfig& train = config.train;
  const bool best = config.save.best && (train.eval_every > 0 || train.eval_every_epochs > 0);
  if (config.save.every == 0 && !best) {
    throw config.Error("divergence.action",
                       "rollback needs snapshots to go back to; set save.every");
  }
}

// Refuses or resets keys that cannot be combined with pipeline stages.
void CheckPipeline(const RunConfig& config, const RankCount& ranks,
                   std::vector<std::string>& warnings) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.pipeline == 1) {
    if (!parallel.stages.empty() && config.IsSet("parallel.stages")) {
      warnings.push_back(fmt::format("{}: parallel.stages: has no effect without parallel.pipeline",
                                     config.Origin("parallel.stages")));
    }
    return;
  }
  const MemoryConfig& memory = config.memory;
  const auto on_host = [](PlaceOrAuto place) { return place != PlaceOrAuto::kDevice; };
  struct Refusal {
    bool asked;
    const char* key;
    const char* reason;
  };
  for (const auto& [asked, key, reason] : std::initializer_list<Refusal>{
           {parallel.zero.value_or(1) > 1, "parallel.zero",
            "2 and 3 sum or gather in every micro-step, between a stage's sends; use 1, or 0"},
           // An option may ask for every layout.
           {parallel.open_mesh() && *ranks.option == '\0', "parallel.tensor",
            "auto does not choose stages; give a number"},
           {on_host(memory.weights), "memory.weights",
            "needs copies of the whole step's program; use device"},
           {on_host(memory.gradients), "memory.gradients",
            "needs copies of the whole step's program; use device"},
           {on_host(config.optimizer.place), "optimizer.place",
            "needs copies of the whole step's program; use device"},
           {!config.checkpointing.offload.empty(), "checkpointing.offload",
            "copies would have to begin in one program and end in another; use recomputation"},
           {memory.allocator == Allocator::kCaching, "memory.allocator",
            "is for the programs of a whole model; use planned"},
           {config.optimizer.in_backward != OnOrAuto::kOff, "optimizer.in_backward",
            "carries no gradients, which the backward passes of a stage add up; use false"},
           {config.train.blocks_first != OnOrAuto::kOff, "train.blocks_first",
            "is another order of the same micro-batches; use false"},
           {config.train.micro_batch == 0, "train.micro_batch",
            "auto compares plans of one program, and each stage has its own; give a number"},
           {config.train.sample_every > 0, "train.sample_every",
            "needs the whole model on a rank; set it to 0"},
           {config.optimizer.ema > 0, "optimizer.ema",
            "exchanges the weights of the whole model; set it to 0"},
           {config.optimizer.name == OptimizerName::kMuon, "optimizer.name",
            "muon divides matrices of the whole model among ranks; use adamw or sgd"},
           {config.preference.asked(), "preference.loss",
            "evaluates the reference on the whole model; remove it"},
           {config.amp.fp8_recipe == Fp8Recipe::kDelayed, "amp.fp8.recipe",
            "delayed keeps the history of all layers in one tensor; use current"},
           {config.amp.fp8_counts, "amp.fp8.counts",
            "adds up the layers of all stages; set it to false"},
           {config.save.async, "save.async",
            "copies the state of the whole model; set it to false"},
       }) {
    if (asked) {
      throw config.Error(key, fmt::format("with pipeline stages (parallel.pipeline: {}): {}",
                                          parallel.pipeline, reason));
    }
  }
  if (config.train.accumulate < parallel.pipeline) {
    warnings.push_back(fmt::format(
        "{}: parallel.pipeline: {} stages wait {:.0f} % of a step for one another with "
        "train.accumulate: {}, (stages - 1) / (micro-batches + stages - 1); more micro-batches "
        "make it less",
        config.Origin("parallel.pipeline"), parallel.pipeline,
        100.0 * static_cast<double>(parallel.pipeline - 1) /
            static_cast<double>(config.train.accumulate + parallel.pipeline - 1),
        config.train.accumulate));
  }
}

}  // namespace

std::string WaitsForGradients(const RunConfig& config) {
  const AmpConfig& amp = config.amp;
  if (config.optimizer.clip_grad_norm > 0 && config.optimizer.clip_by == ClipBy::kStep) {
    return fmt::format(
        "optimizer.clip_grad_norm: {} needs the norm of all gradients first; set it "
        "to 0, or optimizer.clip_by to parameter or last_step",
        config.optimizer.clip_grad_norm);
  }
  if (config.divergence.action == DivergenceAction::kSkip) {
    return "divergence.action: skip needs to see all gradients first; set stop or rollback";
  }
  const bool fp16 = amp.dtype == Dtype::kFp16;
  if (amp.loss_scale != LossScale::kNone && (fp16 || amp.loss_scale != LossScale::kAuto)) {
    return "loss scaling needs to see all gradients first; use amp.dtype: bf16";
  }
  return "";
}

void CheckTechniques(const RunConfig& config, const RankCount& ranks,
                     std::vector<std::string>& warnings) {
  CheckLora(config, warnings);
  CheckCheckpointing(config, warnings);
  CheckAverages(config, warnings);
  CheckInBackward(config, warnings);
  CheckPlaces(config, warnings);
  CheckBlocksFirst(config, warnings);
  CheckDivergence(config);
  CheckPipeline(config, ranks, warnings);
}

}  // namespace plimsoll::config
