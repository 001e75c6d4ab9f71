#include "trainer/resolve/knobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "trainer/config/check_techniques.h"
#include "trainer/config/micro_batches.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

using config::CheckpointPolicy;
using config::OnOrAuto;
using config::PlaceOrAuto;
using config::RunConfig;

// The numbers of tensor ranks that divide the number of all ranks. Some may not divide the model.
std::vector<std::string> TensorRanks(const RunConfig& open, const RunConfig& /*made*/,
                                     const models::Model& /*model*/) {
  std::vector<std::string> numbers;
  const int64_t ranks = open.parallel.ranks / open.parallel.pipeline;
  for (int64_t tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor == 0) numbers.push_back(std::to_string(tensor));
  }
  return numbers;
}

// Sets the tensor ranks. The other ranks become data ranks, and the batch is distributed to them.
void SetTensorRanks(RunConfig& run, const std::string& value) {
  config::ParallelConfig& parallel = run.parallel;
  if (value == "auto") {
    parallel.tensor.reset();
    parallel.data.reset();
    return;
  }
  const int64_t tensor = std::stoll(value), others = tensor * parallel.pipeline;
  if (parallel.ranks % others != 0) {
    throw run.Error("parallel.tensor",
                    fmt::format("{} do not divide {}; choose a divisor",
                                Counted(tensor, "tensor rank"), Counted(parallel.ranks, "rank")));
  }
  parallel.tensor = tensor;
  parallel.data = parallel.ranks / others;
  parallel.CloseWithoutEffect();
  config::DeriveBatch(run, parallel.ranks);
}

std::vector<std::string> Stages(const RunConfig& /*open*/, const RunConfig& made,
                                const models::Model& /*model*/) {
  if (made.parallel.data_ranks() == 1) return {"0"};
  if (made.parallel.pipeline > 1) return {"0", "1"};
  return {"0", "1", "2", "3"};
}

// Whether an earlier part of the run had the same number of ranks as `made`.
bool HasAsManyRanks(const RunConfig& made, const ConfigTexts& earlier) {
  int64_t ranks = made.parallel.pipeline;
  for (const char* key : {"parallel.data", "parallel.tensor"}) {
    const auto number = earlier.find(key);
    if (number == earlier.end() || number->second == "auto") return false;
    ranks *= std::stoll(number->second);
  }
  return ranks == made.parallel.ranks;
}

// Whether an earlier part of the run cut the batch into the same number of micro-steps as `made`.
// With a different batch size the number differs.
bool HasAsManyMicroSteps(const RunConfig& made, const ConfigTexts& earlier) {
  const auto accumulate = earlier.find("train.accumulate");
  return accumulate != earlier.end() && accumulate->second == std::to_string(made.train.accumulate);
}

// The sizes of micro-batches into which the batch can be cut.
std::vector<std::string> Cuts(const RunConfig& open, const RunConfig& /*made*/,
                              const models::Model& model) {
  const models::SampleCoupling coupling = model.sample_coupling();
  if (coupling.whole_micro_batch()) {
    throw open.Error("train.micro_batch",
                     "auto would choose the mathematics, too: all samples of a micro-batch act "
                     "on one another in this model (docs/batch_norm.md); give a number" +
                         GroupsAdvice(open));
  }
  std::vector<std::string> cuts, unshared;
  for (const int64_t micro_batch : config::CutsOf(config::RankSequences(open))) {
    if (micro_batch % coupling.smallest_micro_batch() != 0) continue;
    RunConfig cut = open;
    cut.train.micro_batch = micro_batch;
    const bool shared = WhyNoSequence(cut, model).empty();
    (shared ? cuts : unshared).push_back(std::to_string(micro_batch));
  }
  // If tensor ranks cannot share any cut of the batch, keeps the first one for its error message.
  if (cuts.empty() && !unshared.empty()) cuts.push_back(unshared.front());
  if (cuts.empty()) {
    throw open.Error("train.micro_batch",
                     fmt::format("auto finds no cut of {} into micro-batches of whole "
                                 "groups of the {} that act on one another in this model",
                                 Counted(config::RankSequences(open), "sample"),
                                 coupling.smallest_micro_batch()));
  }
  return cuts;
}

std::string Always(const RunConfig& /*run*/) { return ""; }

std::string WhyNoSequenceAlone(const RunConfig& run) {
  if (run.parallel.tensor_ranks() == 1) return "there is one tensor rank";
  RunConfig with = run;
  with.parallel.sequence = OnOrAuto::kOn;
  return WhyNoSequence(with, *ModelFrom(with));
}

bool CutsBatch(const RunConfig& run) { return run.train.micro_batch == 0; }
bool HasOneMicroStep(const RunConfig& run) { return !CutsBatch(run) && run.train.accumulate == 1; }

bool BlocksFirst(const RunConfig& config) { return config.train.blocks_first == OnOrAuto::kOn; }
bool InBackward(const RunConfig& config) { return config.optimizer.in_backward == OnOrAuto::kOn; }
bool GradientsOnHost(const RunConfig& config) {
  return config.memory.gradients == PlaceOrAuto::kHost;
}

// Whether a combination of choices has no effect, or less effect than another combination.
bool IsDominated(const RunConfig& open, const RunConfig& made) {
  const bool several = made.train.accumulate > 1;
  const bool waits = !config::WaitsForGradients(made).empty();
  // If blocks run first and updates take gradients in the backward pass, no gradient needs to move
  // to the host.
  const bool taken = BlocksFirst(made) && InBackward(made) && !waits;
  if (open.memory.gradients == PlaceOrAuto::kAuto && GradientsOnHost(made) && (!several || taken)) {
    return true;
  }
  if (open.optimizer.in_backward != OnOrAuto::kAuto || waits) return false;
  // Gradients carried on the device take memory throughout the step. If none are carried, updates
  // within the backward pass already save the memory that the other choice would save.
  if (several && !BlocksFirst(made)) return InBackward(made) != GradientsOnHost(made);
  return BlocksFirst(made) && !InBackward(made);
}

// Whether an open knob places tensors on the host.
bool ChoosesHost(const RunConfig& open, const RunConfig& made) {
  return std::ranges::any_of(Techniques(), [&](const Knob& knob) {
    return knob.is_place() && knob.IsOpen(open) && knob.IsUsed(made);
  });
}

// The values of memory.host_blocks, to place only some blocks' tensors on the host. With blocks
// first, all blocks are placed, because programs of all micro-steps take long to plan.
std::vector<std::string> HostBlocks(const RunConfig& open, const RunConfig& made,
                                    const models::Model& model) {
  constexpr int64_t kParts = 4;
  const auto blocks = static_cast<int64_t>(BlocksOf(model).size());
  std::vector<std::string> values = {"auto"};
  if (blocks < kParts || !ChoosesHost(open, made) || BlocksFirst(made)) return values;
  for (int64_t part = kParts - 1; part > 0; --part) {
    values.push_back(std::to_string(blocks * part / kParts));
  }
  return values;
}

// Words for the open knobs whose reach is `least` or more.
std::string WordsOf(const RunConfig& open, const RunConfig& made, Reach least) {
  std::vector<std::string> parts;
  for (const Knob& knob : Knobs()) {
    if (knob.reach < least || !knob.IsOpen(open)) continue;
    if (std::string text = knob.words(made); !text.empty()) parts.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

void Knob::set(RunConfig& run, const std::string& value) const {
  if (set_more != nullptr) return set_more(run, value);
  row->SetText(run, value);
}

std::vector<std::string> Knob::Values(const RunConfig& open, const RunConfig& made,
                                      const models::Model& model) const {
  if (is_technique()) return {unused(), used()};
  return numbers(open, made, model);
}

const std::vector<Knob>& Knobs() {
  static const std::vector<Knob> knobs = {
      {"parallel.tensor", Always,
       [](const RunConfig& made) {
         return fmt::format("{} data × {} tensor ranks", made.parallel.data_ranks(),
                            made.parallel.tensor_ranks());
       },
       Reach::kMesh, TensorRanks, SetTensorRanks, "parallel.data", HasAsManyRanks},
      {"parallel.zero", Always,
       [](const RunConfig& made) -> std::string {
         if (made.parallel.data_ranks() == 1) return "";
         return fmt::format("ZeRO {}", made.parallel.zero.value_or(0));
       },
       Reach::kLayout, Stages, nullptr, nullptr, HasAsManyRanks},
      {"train.micro_batch", Always,
       [](const RunConfig& made) {
         return fmt::format("{} × {}", made.train.accumulate,
                            Counted(made.train.micro_batch, "sequence"));
       },
       Reach::kDraft, Cuts, config::SetMicroBatch, "train.accumulate", HasAsManyMicroSteps},
      {"parallel.sequence", WhyNoSequenceAlone,
       [](const RunConfig& made) -> std::string {
         return made.parallel.shares_tokens() ? "tokens shared" : "";
       },
       Reach::kDraft, nullptr, nullptr, nullptr, HasAsManyRanks},
      {"optimizer.place", Always,
       [](const RunConfig& made) { return "state on " + ToString(made.optimizer.place); },
       Reach::kState},
      {"memory.weights", Always,
       [](const RunConfig& made) { return "weights on " + ToString(made.memory.weights); },
       Reach::kState},
      {"memory.gradients",
       [](const RunConfig& run) -> std::string {
         if (!HasOneMicroStep(run)) return "";
         return "gradients of one micro-step (train.accumulate: 1) are temporaries";
       },
       [](const RunConfig& made) -> std::string {
         return GradientsOnHost(made) ? "gradients on host" : "";
       },
       Reach::kDraft},
      {"train.blocks_first",
       [](const RunConfig& run) -> std::string {
         if (HasOneMicroStep(run)) return "there is one micro-step (train.accumulate: 1)";
         if (!CutsBatch(run)) return "";
         return "train.micro_batch: auto is decided for one micro-step after another";
       },
       [](const RunConfig& made) -> std::string { return BlocksFirst(made) ? "blocks first" : ""; },
       Reach::kFinish},
      {"optimizer.in_backward",
       [](const RunConfig& run) -> std::string {
         const bool carried = run.train.accumulate > 1 &&
                              run.memory.gradients == PlaceOrAuto::kDevice &&
                              run.train.blocks_first == OnOrAuto::kOff;
         if (carried && !CutsBatch(run)) {
           return "gradients of several micro-steps stay until the end";
         }
         return config::WaitsForGradients(run);
       },
       [](const RunConfig& made) -> std::string {
         return InBackward(made) ? "updates in backward" : "";
       },
       Reach::kFinish},
      {"memory.host_blocks", Always,
       [](const RunConfig& made) {
         return made.memory.host_blocks
                    ? fmt::format("of {}", Counted(*made.memory.host_blocks, "block"))
                    : std::string();
       },
       Reach::kState, HostBlocks}};
  return knobs;
}

const std::vector<Knob>& Techniques() {
  static const std::vector<Knob> techniques = [] {
    std::vector<Knob> some;
    std::ranges::copy_if(Knobs(), std::back_inserter(some), &Knob::is_technique);
    return some;
  }();
  return techniques;
}

const char* FirstOpen(const RunConfig& config) {
  if (config.checkpointing.policy == CheckpointPolicy::kAuto) return "checkpointing.policy";
  for (const Knob& knob : Knobs()) {
    const bool one_place = knob.is_place() && IsOneMemory(config);
    // memory.host_blocks alone is not an open choice.
    const bool of_places = std::string_view(knob.key) == "memory.host_blocks";
    if (knob.IsOpen(config) && !one_place && !of_places) return knob.key;
  }
  return nullptr;
}

std::string WhyUnused(const Knob& knob, const RunConfig& config) {
  if (knob.is_place() && IsOneMemory(config))
    return "on a CPU the host's memory is the same memory";
  const std::string_view key = knob.key;
  const bool of_stages =
      key == "train.micro_batch" || key == "parallel.sequence" || key == "parallel.zero";
  if (config.parallel.pipeline > 1 && !of_stages) return "pipeline stages do not go with it";
  return knob.why_unused(config);
}

RunConfig Opened(const Knob& knob, RunConfig run) {
  knob.set(run, "auto");
  return run;
}

std::vector<RunConfig> Advised(const Knob& knob, const RunConfig& run, const models::Model& model) {
  const RunConfig open = Opened(knob, run);
  const std::string value = knob.get(run);
  std::vector<RunConfig> advised;
  const auto add = [&](const std::string& other) { knob.set(advised.emplace_back(open), other); };
  if (value == "auto") return advised;
  // Tensors on the host count against memory.host_budget.
  if (knob.is_place() && knob.IsUsed(run) && (IsOneMemory(run) || run.memory.host_budget)) {
    add(knob.unused());
  }
  if (!WhyUnused(knob, open).empty() || knob.IsUsed(run)) return advised;
  const std::vector<std::string> values = knob.Values(open, run, model);
  auto behind = std::ranges::find(values, value);
  behind = behind == values.end() ? values.begin() : std::next(behind);
  std::for_each(behind, values.end(), add);
  return advised;
}

const char* FirstOpenLayout(const RunConfig& config) {
  const auto open = std::ranges::find_if(Knobs(), [&](const Knob& knob) {
    return knob.reach >= Reach::kLayout && knob.IsOpen(config);
  });
  return open == Knobs().end() ? nullptr : open->key;
}

std::vector<RankLayout> LayoutsOf(const RunConfig& config) {
  std::vector<RankLayout> all = {{config}};
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  for (const Knob& knob : Knobs()) {
    if (knob.reach < Reach::kLayout || !knob.IsOpen(config)) continue;
    std::vector<RankLayout> more;
    for (const RankLayout& layout : all) {
      if (!layout.problem.empty()) {
        more.push_back(layout);
        continue;
      }
      for (const std::string& value : knob.Values(config, layout.config, *model)) {
        RankLayout& next = more.emplace_back(layout);
        try {
          knob.set(next.config, value);
          (void)ModelFrom(next.config);
        } catch (const UserError& error) {
          next.problem = error.what();
        }
      }
    }
    all = std::move(more);
  }
  return all;
}

std::vector<RunConfig> Alternatives(const RunConfig& config, const models::Model& model) {
  std::vector<RunConfig> all = {config};
  for (const Knob& knob : Knobs()) {
    if (knob.reach >= Reach::kLayout || !knob.IsOpen(config)) continue;
    const bool usable = WhyUnused(knob, config).empty();
    std::vector<RunConfig> more;
    for (const RunConfig& run : all) {
      std::vector<std::string> values = knob.Values(config, run, model);
      if (!usable) values.resize(1);
      for (const std::string& value : values) {
        more.push_back(run);
        knob.set(more.back(), value);
      }
    }
    all = std::move(more);
  }
  std::erase_if(all, [&](const RunConfig& made) {
    const bool chose_sequence = config.parallel.sequence == OnOrAuto::kAuto;
    return IsDominated(config, made) || (chose_sequence && !WhyNoSequence(made, model).empty());
  });
  std::ranges::stable_sort(all, {}, [](const RunConfig& made) {
    return std::ranges::count_if(Techniques(), [&](const Knob& knob) { return knob.IsUsed(made); });
  });
  return all;
}

std::string KeepChoices(RunConfig& run, const ConfigTexts& earlier) {
  std::vector<std::string> kept;
  for (const Knob& knob : Knobs()) {
    const auto value = earlier.find(knob.key);
    if (knob.keeps_numbers() || !knob.IsOpen(run) || value == earlier.end()) continue;
    RunConfig made = run;
    try {
      knob.set(made, value->second);
    } catch (const UserError&) {
      continue;  // this value is impossible with another batch
    }
    if (!knob.goes_on(made, earlier)) continue;
    run = std::move(made);
    kept.push_back(fmt::format("{}: {}", knob.key, value->second));
  }
  return fmt::format("{}", fmt::join(kept, ", "));
}

void KeepLayout(RunConfig& run, const RunConfig& made) {
  for (const Knob& knob : Knobs()) {
    if (knob.reach >= Reach::kLayout && knob.IsOpen(run)) knob.set(run, knob.get(made));
  }
  run.parallel.nccl_max_ctas = made.parallel.nccl_max_ctas;
}

std::string GroupsAdvice(const RunConfig& config) {
  if (!config::FindKey("model.norm_samples")->Applies(config)) return "";
  return ", or groups of a fixed size by model.norm_samples";
}

std::string ValuesText(const RunConfig& config, Reach least) {
  std::string text;
  for (const Knob& knob : Knobs()) {
    if (knob.reach >= least) text += knob.get(config) + ' ';
  }
  return text;
}

std::string ChoicesText(const RunConfig& open, const RunConfig& made) {
  return WordsOf(open, made, Reach::kFinish);
}

std::string LayoutText(const RunConfig& open, const RunConfig& made) {
  return WordsOf(open, made, Reach::kLayout);
}

nlohmann::ordered_json ChoicesJson(const RunConfig& open, const RunConfig& made) {
  using nlohmann::ordered_json;
  ordered_json choices = ordered_json::object();
  for (const Knob& knob : Knobs()) {
    const std::string value = knob.get(made);
    if (!knob.IsOpen(open) || value == "auto") continue;
    // Numbers and booleans have JSON types.
    choices[knob.key] = knob.is_place() ? ordered_json(value) : ordered_json::parse(value);
    if (knob.follows == nullptr) continue;
    choices[knob.follows] = ordered_json::parse(config::FindKey(knob.follows)->Text(made));
  }
  return choices;
}

}  // namespace plimsoll::trainer
