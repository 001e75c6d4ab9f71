#include "trainer/settle/settled_run.h"

#include <fmt/format.h>

#include <string>

#include "trainer/settle/activity.h"
#include "trainer/settle/budget_error.h"
#include "trainer/settle/choice_reasons.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/step_solver.h"

namespace plimsoll::trainer {

using config::RunConfig;

SettledRun Settle(const RunConfig& config, const models::Model& model) {
  if (!LeavesChoice(config)) return {config, CompileFrom(config, model), ""};
  RequireBudget(config);
  const Activity activity("looking for the fastest plan within memory.budget");
  const memory::Budget budget = BudgetOf(config);
  RequireRoomForParameters(config, budget);
  StepSolver solver(config);
  const memory::Candidate* chosen = solver.solver().Fastest(budget);
  if (chosen == nullptr) RefuseBudget(budget, solver);
  std::string text = fmt::format("{}; predicted ({}) {:.1f} ms a step, {:.1f} % of it recomputing",
                                 solver.Describe(*chosen), RatesText(config, solver.cost()),
                                 chosen->exact->seconds * 1e3,
                                 100 * chosen->exact->recompute_seconds / chosen->exact->seconds);
  for (const std::string& reason : ChoiceReasons(solver, *chosen, budget, /*used_only=*/true)) {
    text += "; " + reason;
  }
  return {solver.ConfigOf(*chosen), solver.OptionsOf(*chosen), text};
}

}  // namespace plimsoll::trainer
