#include "trainer/settle/alternatives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/config/check_techniques.h"
#include "trainer/config/resolve.h"
#include "trainer/settle/from_config.h"

namespace plimsoll::trainer {
namespace {

using config::CheckpointPolicy;
using config::OnOrAuto;
using config::PlaceOrAuto;
using config::RunConfig;

// Sequences per update on this rank, for train.micro_batch: auto.
int64_t GlobalBatch(const RunConfig& config) {
  const int64_t sequences = config.train.global_batch
                                ? *config.train.global_batch
                                : *config.train.global_batch_tokens / config.model.sequence();
  return sequences / config.parallel.data.value_or(1);
}

// The run for each way to cut its batch.
std::vector<RunConfig> Splits(const RunConfig& config, const models::Model& model) {
  if (config.train.micro_batch > 0) return {config};
  const int64_t coupled = model.coupled_samples();
  if (coupled == 0) {
    throw config.Error("train.micro_batch",
                       "auto would choose the mathematics, too: all samples of a micro-batch act "
                       "on one another in this model (docs/batch_norm.md); give a number, or "
                       "groups of a fixed size by model.norm_samples");
  }
  std::vector<RunConfig> splits;
  for (const auto& [micro_batch, accumulate] : config::CutsOf(GlobalBatch(config))) {
    if (micro_batch % coupled != 0) continue;
    RunConfig split = config;
    split.train.micro_batch = micro_batch;
    split.train.accumulate = accumulate;
    splits.push_back(std::move(split));
  }
  if (splits.empty()) {
    throw config.Error("train.micro_batch",
                       fmt::format("auto finds no cut of {} samples into micro-batches of whole "
                                   "groups of the {} that act on one another in this model",
                                   GlobalBatch(config), coupled));
  }
  // If no cut of the batch can be shared, the first one is kept for its error message.
  const auto unshared = std::stable_partition(splits.begin(), splits.end(), SharesTokens);
  splits.erase(std::max(unshared, splits.begin() + 1), splits.end());
  return splits;
}

template <auto Section, auto Place>
constexpr OpenKey PlaceKey(const char* name, const char* used, const char* unused) {
  return {name,
          [](const RunConfig& config) { return config.*Section.*Place == PlaceOrAuto::kAuto; },
          [](const RunConfig& config) { return config.*Section.*Place == PlaceOrAuto::kHost; },
          [](RunConfig& config, bool used) {
            config.*Section.*Place = used ? PlaceOrAuto::kHost : PlaceOrAuto::kDevice;
          },
          [](RunConfig& config) { config.*Section.*Place = PlaceOrAuto::kAuto; },
          "host",
          "device",
          used,
          unused};
}

template <auto Section, auto Technique>
constexpr OpenKey TechniqueKey(const char* name, const char* used) {
  return {name,
          [](const RunConfig& config) { return config.*Section.*Technique == OnOrAuto::kAuto; },
          [](const RunConfig& config) { return config.*Section.*Technique == OnOrAuto::kOn; },
          [](RunConfig& config, bool used) {
            config.*Section.*Technique = used ? OnOrAuto::kOn : OnOrAuto::kOff;
          },
          [](RunConfig& config) { config.*Section.*Technique = OnOrAuto::kAuto; },
          "true",
          "false",
          used,
          ""};
}

bool BlocksFirst(const RunConfig& config) { return config.train.blocks_first == OnOrAuto::kOn; }
bool InBackward(const RunConfig& config) { return config.optimizer.in_backward == OnOrAuto::kOn; }
bool GradientsOnHost(const RunConfig& config) {
  return config.memory.gradients == PlaceOrAuto::kHost;
}

// Whether a combination of choices that `open` leaves open does nothing, or less than another one.
bool Senseless(const RunConfig& open, const RunConfig& made) {
  const bool several = made.train.accumulate > 1;
  const bool waits = !config::WaitsForGradients(made).empty();
  // Where updates take gradients block by block, none leaves the device.
  const bool taken = BlocksFirst(made) && InBackward(made) && !waits;
  if (open.memory.gradients == PlaceOrAuto::kAuto && GradientsOnHost(made) && (!several || taken)) {
    return true;
  }
  if (open.optimizer.in_backward != OnOrAuto::kAuto || waits) return false;
  // Gradients that are carried on the device take their memory all the time. Elsewhere updates
  // within the backward pass save what the other choice of the two is made for.
  if (several && !BlocksFirst(made)) return InBackward(made) != GradientsOnHost(made);
  return BlocksFirst(made) && !InBackward(made);
}

// Whether what an open key chooses lives on the host.
bool ChoosesHost(const RunConfig& open, const RunConfig& made) {
  const auto chosen = [](PlaceOrAuto given, PlaceOrAuto place) {
    return given == PlaceOrAuto::kAuto && place == PlaceOrAuto::kHost;
  };
  return chosen(open.memory.weights, made.memory.weights) ||
         chosen(open.memory.gradients, made.memory.gradients) ||
         chosen(open.optimizer.place, made.optimizer.place);
}

// Runs that have something on the host, once more with that of a part of the blocks. Not with
// blocks first: programs of all micro-steps take long to plan.
void AddSomeBlocks(const RunConfig& open, int64_t blocks, std::vector<RunConfig>& runs) {
  constexpr int64_t kParts = 4;
  if (open.memory.host_blocks || blocks < kParts) return;
  std::vector<RunConfig> more;
  for (const RunConfig& run : runs) {
    more.push_back(run);
    if (!ChoosesHost(open, run) || BlocksFirst(run)) continue;
    for (int64_t part = kParts - 1; part > 0; --part) {
      more.push_back(run);
      more.back().memory.host_blocks = blocks * part / kParts;
    }
  }
  runs = std::move(more);
}

}  // namespace

const std::vector<OpenKey>& OpenKeys() {
  static const std::vector<OpenKey> keys = {
      PlaceKey<&RunConfig::optimizer, &config::OptimizerConfig::place>(
          "optimizer.place", "state on host", "state on device"),
      PlaceKey<&RunConfig::memory, &config::MemoryConfig::weights>(
          "memory.weights", "weights on host", "weights on device"),
      PlaceKey<&RunConfig::memory, &config::MemoryConfig::gradients>("memory.gradients",
                                                                     "gradients on host", ""),
      TechniqueKey<&RunConfig::train, &config::TrainConfig::blocks_first>("train.blocks_first",
                                                                          "blocks first"),
      TechniqueKey<&RunConfig::optimizer, &config::OptimizerConfig::in_backward>(
          "optimizer.in_backward", "updates in backward")};
  return keys;
}

bool IsPlace(const OpenKey& key) { return std::string_view(key.used_value) == "host"; }

const char* FirstOpen(const RunConfig& config) {
  if (config.checkpointing.policy == CheckpointPolicy::kAuto) return "checkpointing.policy";
  if (config.train.micro_batch == 0) return "train.micro_batch";
  for (const OpenKey& key : OpenKeys()) {
    if (key.open(config) && !(IsPlace(key) && IsOneMemory(config))) return key.name;
  }
  return nullptr;
}

std::string WhyUnused(const OpenKey& key, const RunConfig& config) {
  const std::string_view name = key.name;
  if (IsPlace(key) && IsOneMemory(config)) {
    return "on a CPU the host's memory is the same memory";
  }
  const bool cut = config.train.micro_batch == 0, one = !cut && config.train.accumulate == 1;
  if (name == "memory.gradients" && one) {
    return "gradients of one micro-step (train.accumulate: 1) are temporaries";
  }
  if (name == "optimizer.in_backward") {
    const bool carried = config.train.accumulate > 1 &&
                         config.memory.gradients == PlaceOrAuto::kDevice &&
                         config.train.blocks_first == OnOrAuto::kOff;
    if (carried && !cut) return "gradients of several micro-steps stay until the end";
    return config::WaitsForGradients(config);
  }
  if (name == "train.blocks_first") {
    if (one) return "there is one micro-step (train.accumulate: 1)";
    if (cut) return "train.micro_batch: auto is decided for one micro-step after another";
  }
  return "";
}

std::vector<RunConfig> Alternatives(const RunConfig& config, const models::Model& model) {
  std::vector<RunConfig> all = Splits(config, model);
  for (const OpenKey& key : OpenKeys()) {
    if (!key.open(config)) continue;
    const bool usable = WhyUnused(key, config).empty();
    std::vector<RunConfig> more;
    for (const RunConfig& run : all) {
      for (const bool used : {false, true}) {
        if (used && !usable) continue;
        more.push_back(run);
        key.set(more.back(), used);
      }
    }
    all = std::move(more);
  }
  std::erase_if(all, [&](const RunConfig& made) { return Senseless(config, made); });
  AddSomeBlocks(config, static_cast<int64_t>(BlocksOf(model).size()), all);
  std::ranges::stable_sort(all, {}, [](const RunConfig& made) {
    return std::ranges::count_if(OpenKeys(), [&](const OpenKey& key) { return key.used(made); });
  });
  return all;
}

std::string ChoicesText(const RunConfig& open, const RunConfig& made) {
  std::vector<std::string> parts;
  if (open.train.micro_batch == 0) {
    parts.push_back(
        fmt::format("{} × {} sequences", made.train.accumulate, made.train.micro_batch));
  }
  for (const OpenKey& key : OpenKeys()) {
    if (!key.open(open)) continue;
    const std::string text = key.used(made) ? key.used_text : key.unused_text;
    if (!text.empty()) parts.push_back(text);
  }
  if (made.memory.host_blocks && ChoosesHost(open, made)) {
    parts.push_back(fmt::format("of {} blocks", *made.memory.host_blocks));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

nlohmann::ordered_json ChoicesJson(const RunConfig& open, const RunConfig& made) {
  using nlohmann::ordered_json;
  ordered_json choices = ordered_json::object();
  if (open.train.micro_batch == 0) {
    choices["train.micro_batch"] = made.train.micro_batch;
    choices["train.accumulate"] = made.train.accumulate;
  }
  for (const OpenKey& key : OpenKeys()) {
    if (!key.open(open)) continue;
    const bool used = key.used(made);
    const std::string value = used ? key.used_value : key.unused_value;
    choices[key.name] = value;
    if (value == "true" || value == "false") choices[key.name] = used;
  }
  if (made.memory.host_blocks && ChoosesHost(open, made)) {
    choices["memory.host_blocks"] = *made.memory.host_blocks;
  }
  return choices;
}

}  // namespace plimsoll::trainer
