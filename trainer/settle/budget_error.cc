#include "trainer/settle/budget_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/settle/channels.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/gpu_profile.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_device.h"
#include "trainer/settle/step_draft.h"

namespace plimsoll::trainer {
namespace {

using config::CheckpointPolicy;
using config::PlaceOrAuto;
using config::RunConfig;

// What stays on the device, with as much on the host as may be.
StepDraft::Stays LeastOnDevice(const RunConfig& config) {
  const auto model = ModelFrom(config);
  const std::vector<RunConfig> all = Alternatives(config, *model);
  RunConfig run = *std::ranges::max_element(all, {}, [](const RunConfig& made) {
    return std::pair(made.memory.weights == PlaceOrAuto::kHost,
                     made.optimizer.place == PlaceOrAuto::kHost);
  });
  run.train.eval_every = run.train.sample_every = 0;
  return StepDraft(run, *model).OnDevice();
}

// One change to the run, as the user would write it.
struct Change {
  std::string key;  // "optimizer.state_dtype"; of changes with one key the first that fits is named
  std::string value;  // "int8"
  RunConfig run;      // with the change

  std::string text() const { return key + ": " + value; }
};

// Whether the solver could use the knob if the run left it open.
bool MayOpen(const Knob& knob, const RunConfig& config) {
  return !knob.IsOpen(config) && !knob.IsUsed(config) &&
         WhyUnused(knob, Opened(knob, config)).empty();
}

// Leaves all choices that change no number to the solver. Returns the keys that it changes.
std::vector<std::string> OpenEverything(RunConfig& run) {
  std::vector<std::string> names;
  if (run.checkpointing.policy != CheckpointPolicy::kAuto) names.push_back("checkpointing.policy");
  run.checkpointing.policy = CheckpointPolicy::kAuto;
  for (const Knob& knob : Knobs()) {
    if (!knob.keeps_numbers() || !MayOpen(knob, run)) continue;
    knob.set(run, "auto");
    names.push_back(knob.key);
  }
  return names;
}

// Those of one knob. None of a micro-batch whose samples all act on one another: another one would
// be another training. None of the mesh: how the batch is dealt to another one depends on the file.
void AddChanges(const Knob& knob, const RunConfig& config, const models::Model& model,
                std::vector<Change>& changes) {
  const bool batch = std::string_view(knob.key) == "train.micro_batch";
  if (knob.reach == Reach::kMesh || (batch && model.coupled_samples() == 0)) return;
  int64_t micro_batch = config.train.micro_batch;
  for (RunConfig& run : Advised(knob, config, model)) {
    // Of micro-batches those that are at most half of the one before.
    const int64_t smaller = run.train.micro_batch;
    if (smaller < micro_batch && 2 * smaller > micro_batch) continue;
    micro_batch = smaller;
    std::string value = knob.get(run);
    if (run.train.accumulate != config.train.accumulate) {
      value += fmt::format(" with train.accumulate: {}", run.train.accumulate);
    }
    changes.push_back({knob.key, std::move(value), std::move(run)});
  }
}

std::vector<Change> Changes(const RunConfig& config) {
  const auto model = ModelFrom(config);
  std::vector<Change> changes;
  const auto add = [&](const char* key, const std::string& value) {
    config::FindKey(key)->SetText(changes.emplace_back(key, value, config).run, value);
  };
  if (config.checkpointing.policy != CheckpointPolicy::kAuto) add("checkpointing.policy", "auto");
  const auto of_layout = [](const Knob& knob) { return knob.reach >= Reach::kLayout; };
  for (const Knob& knob : Knobs()) {
    if (!of_layout(knob)) AddChanges(knob, config, *model, changes);
  }
  // What else changes numbers.
  for (config::StateDtype dtype : {config::StateDtype::kBf16, config::StateDtype::kInt8}) {
    if (config.optimizer.state_dtype < dtype) add("optimizer.state_dtype", ToString(dtype));
  }
  if (config.amp.dtype == config::Dtype::kFp32 || config.amp.dtype == config::Dtype::kTf32) {
    add("amp.dtype", "bf16");
  }
  for (const Knob& knob : Knobs()) {
    if (of_layout(knob)) AddChanges(knob, config, *model, changes);
  }
  const bool data_ranks = config.parallel.data_ranks() > 1;
  if (data_ranks && config.parallel.zero == 3 && !config.parallel.reshard_after_forward) {
    add("parallel.reshard_after_forward", "true");
  }
  return changes;
}

// The bytes that a plan needs of memory.budget and memory.host_budget, or these limits.
struct Needs {
  int64_t process = 0, host = 0;

  bool Within(const Needs& lines) const { return process <= lines.process && host <= lines.host; }
};

// The needs of a changed run's smallest plan; nothing where the change is impossible. A coarse
// search is quick, and what fits by it fits by the full one, which says how small the plan becomes.
std::optional<Needs> NeedsOf(RunConfig config, const Needs& lines, bool coarse) {
  try {
    if (!config.IsSet("parallel.nccl_max_ctas")) config.parallel.nccl_max_ctas.reset();
    ChooseChannels(config);
    const memory::DeviceProfile profile = ProfileFrom(config);
    StepSolver solver(config, {.built_in_rates = true, .coarse = coarse});
    const memory::ExactPlan& plan =
        *solver.solver().Smallest({profile.ArenaWithin(lines.process), lines.host, profile}).exact;
    // The full search may skip a plan that a coarse one finds, in favour of one that is predicted
    // to be smaller but loses more to gaps between tensors.
    const bool searched = coarse && config.checkpointing.policy == CheckpointPolicy::kAuto;
    const int64_t margin = searched ? plan.needed_bytes / 100 : 0;
    return Needs{profile.ProcessBytes(plan.needed_bytes + margin), plan.host_arena_bytes};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string LargestConsumer(const memory::MemoryPlan& plan) {
  const auto largest = std::ranges::max_element(plan.bytes_by_role);
  std::string name(graph::Name(static_cast<graph::Role>(largest - plan.bytes_by_role.begin())));
  std::ranges::replace(name, '_', ' ');
  return fmt::format("{}, {}", name, FormatBytes(*largest));
}

std::string List(const std::vector<std::string>& ways) {
  std::string list;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (i > 0) list += i + 1 == ways.size() ? " or " : ", ";
    list += ways[i];
  }
  return list;
}

// "no single change makes it fit, but together memory.weights: auto, optimizer.place: auto do (7.20
// GiB)"; empty: they don't.
std::string Together(const RunConfig& config, const Needs& lines,
                     const std::function<int64_t(const Needs&)>& of) {
  RunConfig changed = config;
  const std::vector<std::string> keys = OpenEverything(changed);
  if (keys.size() < 2) return "";
  const std::optional<Needs> then = NeedsOf(changed, lines, /*coarse=*/false);
  if (!then || !then->Within(lines)) return "";
  return fmt::format("no single change makes it fit, but together {}: auto do ({})",
                     fmt::join(keys, ": auto, "), FormatBytes(of(*then)));
}

// `smallest`: the run's smallest plan, which needs a limit of `needed` bytes on the device.
[[noreturn]] void ThrowBudgetNotMet(const RunConfig& config, const memory::Budget& budget,
                                    const memory::MemoryPlan& smallest, int64_t needed) {
  const Needs lines = {budget.process(), budget.host};
  const Needs needs = {budget.profile.ProcessBytes(needed), smallest.host_arena_bytes};
  // The limit that the message is about.
  const bool device = needs.process > lines.process;
  const std::string key = device ? "memory.budget" : "memory.host_budget";
  const auto of = [&](const Needs& both) { return device ? both.process : both.host; };
  const auto other_of = [&](const Needs& both) { return device ? both.host : both.process; };

  std::vector<std::string> ways;
  std::optional<Change> closest;  // of the changes that don't suffice
  int64_t closest_bytes = of(needs);
  std::string fits;  // the key of the last change that does
  const auto add = [&](const Change& change, const Needs& then) {
    fits = change.key;
    ways.push_back(fmt::format("{} ({})", change.text(), FormatBytes(of(then))));
  };
  for (const Change& change : Changes(config)) {
    if (change.key == fits) continue;
    const std::optional<Needs> then = NeedsOf(change.run, lines, /*coarse=*/true);
    if (!then || other_of(*then) > other_of(lines)) continue;
    if (then->Within(lines)) {
      const Needs exact = NeedsOf(change.run, lines, /*coarse=*/false).value_or(*then);
      add(change, exact.Within(lines) ? exact : *then);
    } else if (of(*then) < closest_bytes) {
      closest = change;
      closest_bytes = of(*then);
    }
  }
  if (ways.empty() && closest) {
    const std::optional<Needs> exact = NeedsOf(closest->run, lines, /*coarse=*/false);
    if (exact && exact->Within(lines)) add(*closest, *exact);
    if (exact) closest_bytes = std::min(closest_bytes, of(*exact));
  }
  std::string way_out = "it would fit with " + List(ways);
  if (ways.empty()) way_out = Together(config, lines, of);
  if (way_out.empty()) {
    way_out = "no single change makes it fit; raise the budget or make the model smaller";
    if (closest) {
      way_out += fmt::format(" (the closest: {}, {})", closest->text(), FormatBytes(closest_bytes));
    }
  }

  int64_t parameters = 0;
  for (const memory::PersistentTensor& tensor : smallest.persistent) {
    const bool here = tensor.place == graph::Place::kDevice;
    if (here && tensor.role == graph::Role::kParameter) parameters += tensor.bytes;
  }
  std::string line = fmt::format("{} ({} bytes)", FormatBytes(of(lines)), of(lines));
  if (device && lines.process < parameters) {
    line += fmt::format(" is less than the parameters alone ({})", FormatBytes(parameters));
  }
  std::string parts;
  if (device) parts = "; the largest part: " + LargestConsumer(smallest);
  if (device && budget.profile.overhead_bytes() > 0) {
    parts +=
        fmt::format("; {} of it beside the arena", FormatBytes(budget.profile.overhead_bytes()));
  }
  std::string also;
  if (other_of(needs) > other_of(lines)) {
    also = fmt::format(", and memory.host_budget: {} ({} bytes)", FormatBytes(other_of(needs)),
                       other_of(needs));
  }
  throw UserError(fmt::format("{}: {}: {}; {} needs {} ({} bytes{}){}; {}", config.Origin(key), key,
                              line, LeavesChoice(config) ? "the smallest plan" : "the plan",
                              FormatBytes(of(needs)), of(needs), parts, also, way_out),
                  ExitCode::kBudgetNotMet);
}

}  // namespace

bool HasRoomForState(const RunConfig& config, const memory::Budget& budget) {
  return LeastOnDevice(config).all <= budget.process();
}

void RequireRoomForParameters(const RunConfig& config, const memory::Budget& budget) {
  const int64_t parameters = LeastOnDevice(config).parameters;
  if (parameters <= budget.process()) return;
  std::string halves;
  if (config.amp.dtype == config::Dtype::kFp32 || config.amp.dtype == config::Dtype::kTf32) {
    RunConfig low = config;
    low.amp.dtype = config::Dtype::kBf16;
    halves = fmt::format("; with amp.dtype: bf16 they take {}",
                         FormatBytes(LeastOnDevice(low).parameters));
  }
  throw UserError(
      fmt::format(
          "{}: memory.budget: {} ({} bytes) is less than the parameters alone ({}){}; raise "
          "the budget, make the model smaller,{} or have more ranks share it (parallel.tensor, "
          "parallel.zero: 3)",
          config.Origin("memory.budget"), FormatBytes(budget.process()), budget.process(),
          FormatBytes(parameters), halves,
          IsOneMemory(config) ? "" : " keep its weights on the host (memory.weights: host),"),
      ExitCode::kBudgetNotMet);
}

void RefuseBudget(const memory::Budget& budget, StepSolver& solver) {
  const memory::Candidate& smallest = solver.solver().Smallest(budget);
  ThrowBudgetNotMet(solver.config(), budget,
                    Compile(solver.model(), solver.OptionsOf(smallest)).plan,
                    smallest.exact->needed_bytes);
}

void CheckBudget(const RunConfig& config, const memory::MemoryPlan& plan) {
  const memory::Budget budget = BudgetOf(config);
  const int64_t arena = ArenaBytes(config, plan);
  if (arena <= budget.device && plan.host_arena_bytes <= budget.host) return;
  ThrowBudgetNotMet(config, budget, plan, arena);
}

}  // namespace plimsoll::trainer
