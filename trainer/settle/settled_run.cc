#include "trainer/settle/settled_run.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/settle/budget_error.h"
#include "trainer/settle/choice_reasons.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_costs.h"

namespace plimsoll::trainer {

using checkpointing::Options;
using config::RunConfig;
using nlohmann::json;

namespace {

// The choices of Settle(), for a rank of the same program that knows the configuration.
std::string Encode(const RunConfig& config, const SettledRun& settled) {
  std::map<std::string, std::string> knobs;
  for (const Knob& knob : Knobs()) {
    const std::string value = knob.get(settled.config);
    if (value != knob.get(config)) knobs[knob.key] = value;
  }
  const CompileOptions& options = settled.options;
  return json{{"knobs", knobs},
              {"gpu", options.gpu},
              {"explicit", options.checkpointing.policy == Options::Policy::kExplicit},
              {"retention", options.retention},
              {"chosen", settled.chosen}}
      .dump();
}

SettledRun Decode(const std::string& text, const RunConfig& config, const models::Model& model) {
  const json made = json::parse(text);
  SettledRun settled{config, {}, made["chosen"]};
  const json& knobs = made["knobs"];
  for (const Knob& knob : Knobs()) {
    if (knobs.contains(knob.key)) knob.set(settled.config, knobs[knob.key]);
  }
  CompileOptions& options = settled.options = CompileFrom(settled.config, model);
  options.gpu = made["gpu"];  // all ranks have one program
  if (!made["explicit"]) return settled;
  options.checkpointing = {};
  options.checkpointing.policy = Options::Policy::kExplicit;
  made["retention"].get_to(options.retention);
  return settled;
}

}  // namespace

FastestPlan::FastestPlan(const RunConfig& config) {
  RequireBudget(config);
  budget = BudgetOf(config);
  RequireRoomForParameters(config, budget);
  solver = std::make_unique<StepSolver>(config);
  plan = solver->solver().Fastest(budget);
  if (plan == nullptr) RefuseBudget(budget, *solver);
}

SettledRun Settle(const RunConfig& config, const models::Model& model) {
  if (!LeavesChoice(config)) return {config, CompileFrom(config, model), ""};
  const FastestPlan fastest(config);
  StepSolver& solver = *fastest.solver;
  const memory::Candidate& plan = *fastest.plan;
  std::string text = fmt::format("{}; predicted ({}) {:.1f} ms a step, {:.1f} % of it recomputing",
                                 solver.Describe(plan), RatesText(config, solver.cost()),
                                 plan.exact->seconds * 1e3,
                                 100 * plan.exact->recompute_seconds / plan.exact->seconds);
  for (const std::string& reason :
       ChoiceReasons(solver, plan, fastest.budget, /*used_only=*/true)) {
    text += "; " + reason;
  }
  return {solver.ConfigOf(plan), solver.OptionsOf(plan), text};
}

SettledRun SettleOnFirst(const RunConfig& config, const models::Model& model,
                         runtime::RankGroup& ranks) {
  if (ranks.size() == 1) return Settle(config, model);
  std::string text;
  if (ranks.rank() == 0) text = Encode(config, Settle(config, model));
  return Decode(ranks.Broadcast(text), config, model);
}

}  // namespace plimsoll::trainer
