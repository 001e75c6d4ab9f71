#include "trainer/settle/settled_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/budget_error.h"
#include "trainer/settle/choice_reasons.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/step_draft.h"

namespace plimsoll::trainer {

namespace {

using config::PlaceOrAuto;
using config::RunConfig;

// The bytes of the parameters that stay on the device, with as many on the host as may be.
int64_t LeastOfParameters(const RunConfig& config) {
  const auto model = ModelFrom(config);
  const std::vector<RunConfig> all = Alternatives(config, *model);
  RunConfig run = *std::ranges::max_element(
      all, {}, [](const RunConfig& made) { return made.memory.weights == PlaceOrAuto::kHost; });
  run.train.eval_every = run.train.sample_every = 0;
  const StepDraft draft(run, *model);
  int64_t bytes = 0;
  std::set<std::string> counted;  // objectives may read the same parameters
  for (const auto& base : draft.bases()) {
    for (const graph::Tensor& tensor : base->tensors()) {
      const bool own = !tensor.alias && tensor.place == graph::Place::kDevice &&
                       tensor.role == graph::Role::kParameter;
      if (own && counted.insert(tensor.name).second) bytes += tensor.bytes();
    }
  }
  return bytes;
}

}  // namespace

SettledRun Settle(const RunConfig& config, const models::Model& model) {
  if (!LeavesChoice(config)) return {config, CompileFrom(config, model), ""};
  RequireBudget(config);
  const Activity activity("looking for the fastest plan within memory.budget");
  const memory::Budget budget = BudgetOf(config);
  RequireRoomForParameters(config, budget);
  StepSolver solver(config);
  const memory::Candidate* chosen = solver.solver().Fastest(budget);
  if (chosen == nullptr) RefuseBudget(config, budget, solver);
  std::string text = fmt::format("{}; predicted ({}) {:.1f} ms a step, {:.1f} % of it recomputing",
                                 solver.Describe(*chosen), RatesText(config, solver.cost()),
                                 chosen->exact->seconds * 1e3,
                                 100 * chosen->exact->recompute_seconds / chosen->exact->seconds);
  for (const std::string& reason : ChoiceReasons(solver, *chosen, budget, /*used_only=*/true)) {
    text += "; " + reason;
  }
  return {solver.ConfigOf(*chosen), solver.OptionsOf(*chosen), text};
}

bool HasRoomForParameters(const RunConfig& config, const memory::Budget& budget) {
  return budget.device == memory::Budget::kNone || LeastOfParameters(config) <= budget.process();
}

void RequireRoomForParameters(const RunConfig& config, const memory::Budget& budget) {
  if (HasRoomForParameters(config, budget)) return;
  std::string halves;
  if (config.amp.dtype == config::Dtype::kFp32 || config.amp.dtype == config::Dtype::kTf32) {
    RunConfig low = config;
    low.amp.dtype = config::Dtype::kBf16;
    halves =
        fmt::format("; with amp.dtype: bf16 they take {}", FormatBytes(LeastOfParameters(low)));
  }
  throw UserError(
      fmt::format(
          "{}: memory.budget: {} ({} bytes) is less than the parameters alone ({}){}; raise "
          "the budget, make the model smaller,{} or have ranks share it (parallel.tensor, "
          "parallel.zero: 3)",
          config.Origin("memory.budget"), FormatBytes(budget.process()), budget.process(),
          FormatBytes(LeastOfParameters(config)), halves,
          IsOneMemory(config) ? "" : " keep its weights on the host (memory.weights: host),"),
      ExitCode::kBudgetNotMet);
}

void RefuseBudget(const RunConfig& config, const memory::Budget& budget, StepSolver& solver) {
  const memory::Candidate& smallest = solver.solver().Smallest(budget);
  ThrowBudgetNotMet(config, budget, Compile(solver.model(), solver.OptionsOf(smallest)).plan,
                    smallest.exact->needed_bytes);
}

void RefuseBudget(const RunConfig& config, const memory::Budget& budget) {
  StepSolver solver(config, {.built_in_rates = true});
  RefuseBudget(config, budget, solver);
}

void CheckBudget(const RunConfig& config, const memory::MemoryPlan& plan) {
  const memory::Budget budget = BudgetOf(config);
  const int64_t arena = ArenaBytes(config, plan);
  if (arena <= budget.device && plan.host_arena_bytes <= budget.host) return;
  ThrowBudgetNotMet(config, budget, plan, arena);
}

}  // namespace plimsoll::trainer
