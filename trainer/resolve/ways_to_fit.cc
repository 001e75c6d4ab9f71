#include "trainer/resolve/ways_to_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/smallest_stages.h"

namespace plimsoll::trainer {
namespace {

using config::CheckpointPolicy;
using config::RunConfig;

// One change to the run, as the user would write it.
struct Change {
  // "optimizer.state_dtype"; among changes of one key the first that fits is named.
  std::string key;
  std::vector<std::pair<std::string, std::string>> values;  // the values of all keys that change
  RunConfig run;                                            // the run with the change
  // Whether memory.budget is one of the keys.
  bool brings_budget = false;

  // "train.micro_batch: 1 with train.accumulate: 16"
  Way way(const Needs& needs) const {
    Way way{"", {}, needs};
    for (const auto& [changed, value] : values) {
      way.text += fmt::format("{}{}: {}", way.text.empty() ? "" : " with ", changed, value);
      way.sets.push_back(changed + "=" + value);
    }
    return way;
  }
};

// Gives the run a budget of 90 % of its GPU if it has none: open choices need a budget.
void GiveBudget(Change& change) {
  if (change.run.memory.budget) return;
  change.brings_budget = true;
  change.run.memory.budget = {.base = config::MemorySize::Base::kTotal, .fraction = kGpuShare};
  change.values.emplace_back("memory.budget", fmt::format("{:.0f}%", 100 * kGpuShare));
}

// Whether the solver could use the knob if the run left it open.
bool MayOpen(const Knob& knob, const RunConfig& config) {
  return !knob.IsOpen(config) && !knob.IsUsed(config) &&
         WhyUnused(knob, Opened(knob, config)).empty();
}

// Opens all choices that do not affect results, for the solver. Returns their keys.
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

// Whether the solver would leave the knob out of its choices because one program would hold too
// many micro-steps.
bool TooLongToPlan(const Knob& knob, const RunConfig& config) {
  if (std::string_view(knob.key) != "train.blocks_first") return false;
  try {
    const StepSolver solver(Opened(knob, config), {.built_in_rates = true, .coarse = true});
    return !solver.WhyLeftOut(knob).empty();
  } catch (const UserError&) {
    return false;  // the change is impossible, which NeedsOf finds
  }
}

// Adds the changes of one knob. Omits the micro-batch if all its samples affect one another,
// because another size would be a different training. Omits the mesh, because how a batch is
// distributed to another mesh depends on the file.
void AddChanges(const Knob& knob, const RunConfig& config, const models::Model& model,
                std::vector<Change>& changes) {
  const bool batch = std::string_view(knob.key) == "train.micro_batch";
  if (knob.reach == Reach::kMesh || (batch && model.sample_coupling().whole_micro_batch())) return;
  const std::vector<RunConfig> advised = Advised(knob, config, model);
  if (advised.empty() || TooLongToPlan(knob, config)) return;
  int64_t micro_batch = config.train.micro_batch;
  for (const RunConfig& run : advised) {
    // Adds micro-batches of at most half of the previous size only.
    const int64_t smaller = run.train.micro_batch;
    if (smaller < micro_batch && 2 * smaller > micro_batch) continue;
    micro_batch = smaller;
    Change& change = changes.emplace_back(knob.key);
    change.values.emplace_back(knob.key, knob.get(run));
    if (run.train.accumulate != config.train.accumulate) {
      change.values.emplace_back("train.accumulate", std::to_string(run.train.accumulate));
    }
    change.run = run;
  }
}

std::vector<Change> Changes(const RunConfig& config) {
  const auto model = ModelFrom(config);
  std::vector<Change> changes;
  const auto add = [&](const char* key, const std::string& value) -> Change& {
    Change& change = changes.emplace_back(key);
    change.values.emplace_back(key, value);
    change.run = config;
    config::FindKey(key)->SetText(change.run, value);
    return change;
  };
  if (config.checkpointing.policy != CheckpointPolicy::kAuto) {
    GiveBudget(add("checkpointing.policy", "auto"));
  }
  const auto of_layout = [](const Knob& knob) { return knob.reach >= Reach::kLayout; };
  for (const Knob& knob : Knobs()) {
    if (!of_layout(knob)) AddChanges(knob, config, *model, changes);
  }
  // Adds further changes, which affect results.
  for (config::StateDtype dtype : {config::StateDtype::kBf16, config::StateDtype::kInt8}) {
    if (config.optimizer.state_dtype < dtype) add("optimizer.state_dtype", ToString(dtype));
  }
  if (config.amp.dtype == config::Dtype::kFp32 || config.amp.dtype == config::Dtype::kTf32) {
    add("amp.dtype", ToString(HalfFrom(config)));
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

// The limits for the plan of a change: the given ones, and the budget that the change brings.
Needs LimitsWith(const Change& change, Needs limits) {
  if (change.brings_budget) limits.process = std::min(limits.process, BudgetLine(change.run));
  return limits;
}

// The needs of a changed run's smallest plan, of all stages the largest; nullopt if the change is
// impossible. A coarse search is quick: a plan that fits by the coarse search also fits by the full
// search. The full search finds how small the plan becomes.
std::optional<Needs> NeedsOf(RunConfig config, const Needs& limits, bool coarse) {
  try {
    if (!config.IsSet("parallel.nccl_max_ctas")) config.parallel.nccl_max_ctas.reset();
    // A changed run may divide its blocks otherwise.
    if (!config.IsSet("parallel.stages")) config.parallel.stages.clear();
    return SmallestOfStages(config, limits, coarse).needs;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Sets all keys that do not affect results to `auto` at once. Returns nullopt if fewer than two
// such keys exist, or if the run does not fit its limits even then.
std::optional<Way> Together(const RunConfig& config, const Needs& limits) {
  Change all;
  all.run = config;
  for (const std::string& key : OpenEverything(all.run)) all.values.emplace_back(key, "auto");
  if (all.values.size() < 2) return std::nullopt;
  GiveBudget(all);
  const Needs within = LimitsWith(all, limits);
  const std::optional<Needs> then = NeedsOf(all.run, within, /*coarse=*/false);
  if (!then || !then->Within(within)) return std::nullopt;
  Way way = all.way(*then);
  way.text.clear();
  for (const auto& [key, value] : all.values) {
    way.text += fmt::format("{}{}: {}", way.text.empty() ? "" : ", ", key, value);
  }
  return way;
}

}  // namespace

Needs LimitsOf(const memory::Budget& budget) { return {budget.process(), budget.host}; }

SmallestPlan SmallestOf(StepSolver& solver, const Needs& limits) {
  if (solver.cost().measured()) {
    StepSolver built_in(solver.config(), {.built_in_rates = true, .stage = solver.stage()});
    return SmallestOf(built_in, limits);
  }
  const memory::DeviceProfile profile = ProfileFrom(solver.config());
  const memory::Candidate& smallest =
      solver.solver().Smallest({profile.ArenaWithin(limits.process), limits.host, profile});
  SmallestPlan found;
  found.plan = Compile(solver.model(), solver.OptionsOf(smallest)).plan;
  found.needs = {profile.ProcessBytes(smallest.exact->needed_bytes), found.plan.host_bytes()};
  return found;
}

std::string WaysToFit::Text(const std::string& else_do) const {
  const auto bytes = [&](const Way& way) {
    return FormatBytes(of_device ? way.needs.process : way.needs.host);
  };
  if (together) {
    return fmt::format("no single change makes it fit, but together {} do ({})", together->text,
                       bytes(*together));
  }
  if (single.empty()) {
    std::string text = "no single change makes it fit; " + else_do;
    if (closest) text += fmt::format(" (the closest: {}, {})", closest->text, bytes(*closest));
    return text;
  }
  std::string text = "it would fit with ";
  for (size_t i = 0; i < single.size(); ++i) {
    if (i > 0) text += i + 1 == single.size() ? " or " : ", ";
    text += fmt::format("{} ({})", single[i].text, bytes(single[i]));
  }
  return text;
}

WaysToFit FindWaysToFit(const RunConfig& config, const Needs& needs, const Needs& limits) {
  WaysToFit ways;
  ways.of_device = needs.process > limits.process;
  const auto of = [&](const Needs& both) { return ways.of_device ? both.process : both.host; };
  const auto other_of = [&](const Needs& both) {
    return ways.of_device ? both.host : both.process;
  };
  std::optional<Change> closest;
  int64_t closest_bytes = of(needs);
  std::string fits;  // key of the last change that is enough
  const auto add = [&](const Change& change, const Needs& then) {
    fits = change.key;
    ways.single.push_back(change.way(then));
  };
  for (const Change& change : Changes(config)) {
    if (change.key == fits) continue;
    const Needs within = LimitsWith(change, limits);
    const std::optional<Needs> then = NeedsOf(change.run, within, /*coarse=*/true);
    if (!then || other_of(*then) > other_of(within)) continue;
    if (then->Within(within)) {
      const Needs exact = NeedsOf(change.run, within, /*coarse=*/false).value_or(*then);
      add(change, exact.Within(within) ? exact : *then);
    } else if (of(*then) < closest_bytes) {
      closest = change;
      closest_bytes = of(*then);
    }
  }
  if (!ways.single.empty()) return ways;
  if (closest) {
    const Needs within = LimitsWith(*closest, limits);
    const std::optional<Needs> exact = NeedsOf(closest->run, within, /*coarse=*/false);
    if (exact && exact->Within(within)) {
      add(*closest, *exact);
      return ways;
    }
    Needs least = exact.value_or(needs);
    int64_t& bytes = ways.of_device ? least.process : least.host;
    bytes = exact ? std::min(closest_bytes, of(*exact)) : closest_bytes;
    ways.closest = closest->way(least);
  }
  ways.together = Together(config, limits);
  return ways;
}

}  // namespace plimsoll::trainer
