#include "trainer/settle/settled_run.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "memory/interconnect.h"
#include "trainer/settle/budget_error.h"
#include "trainer/settle/channels.h"
#include "trainer/settle/choice_reasons.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/run_device.h"

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
              {"channels", settled.config.parallel.nccl_max_ctas.value_or(0)},
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
  settled.config.parallel.nccl_max_ctas = made["channels"];
  CompileOptions& options = settled.options = CompileFrom(settled.config, model);
  options.gpu = made["gpu"];  // all ranks have one program
  if (!made["explicit"]) return settled;
  options.checkpointing = {};
  options.checkpointing.policy = Options::Policy::kExplicit;
  made["retention"].get_to(options.retention);
  return settled;
}

// What the ranks of a layout can do within its budget.
struct LayoutPlan {
  std::string name;  // LayoutText
  memory::Budget budget;
  std::unique_ptr<StepSolver> solver = nullptr;
  const memory::Candidate* fastest = nullptr;  // nullptr: nothing fits

  double seconds() const { return fastest->exact->seconds; }
  // Of the process, by the smallest plan.
  int64_t least_bytes() const {
    return budget.profile.ProcessBytes(solver->solver().Smallest(budget).exact->needed_bytes);
  }
};

LayoutPlan PlanOf(const RunConfig& open, RunConfig layout) {
  ChooseChannels(layout);
  LayoutPlan plan = {.name = LayoutText(open, layout), .budget = BudgetOf(layout)};
  RequireRoomForParameters(layout, plan.budget);
  plan.solver = std::make_unique<StepSolver>(layout);
  plan.fastest = plan.solver->solver().Fastest(plan.budget);
  return plan;
}

// UserError unless layouts can be compared, where the run leaves one open.
void RequireComparable(const RunConfig& config) {
  const char* const open = FirstOpenLayout(config);
  if (open == nullptr) return;
  if (config.parallel.open_mesh() && !config.train.global_batch &&
      !config.train.global_batch_tokens) {
    throw config.Error("parallel.tensor",
                       "auto deals out a batch whose size must be known; set train.global_batch, "
                       "or give a number of ranks");
  }
  const int64_t ranks = RanksFrom(config);
  if (DeviceFrom(config) == runtime::DeviceKind::kCpu || ranks <= memory::kGpusOfHost) return;
  throw config.Error(open,
                     fmt::format("auto compares layouts of the GPUs of one host, {} at most; give "
                                 "a number (plimsoll plan --ranks {} says what fits)",
                                 memory::kGpusOfHost, ranks));
}

}  // namespace

FastestPlan::FastestPlan(const RunConfig& config) {
  RequireBudget(config);
  RequireComparable(config);
  std::optional<LayoutPlan> best, next, smallest;  // `smallest`: where nothing fits
  std::exception_ptr problem;                      // of a layout that is impossible
  for (const Layout& one : LayoutsOf(config)) {
    try {
      if (!one.problem.empty()) throw UserError(one.problem);
      LayoutPlan plan = PlanOf(config, one.config);
      if (plan.fastest == nullptr) {
        const bool closer = !smallest || plan.least_bytes() < smallest->least_bytes();
        if (closer) smallest = std::move(plan);
      } else if (!best || plan.seconds() < best->seconds()) {
        next = std::exchange(best, std::move(plan));
      } else if (!next || plan.seconds() < next->seconds()) {
        next = std::move(plan);
      }
    } catch (const UserError& error) {
      // Of those without room for parameters, the last one has the fewest.
      if (!problem || error.code() == ExitCode::kBudgetNotMet) problem = std::current_exception();
    }
  }
  if (!best && smallest) RefuseBudget(smallest->budget, *smallest->solver);
  if (!best) std::rethrow_exception(problem);
  budget = best->budget;
  solver = std::move(best->solver);
  plan = best->fastest;
  layout_ = best->name;
  why_layout_ = next ? fmt::format(
                           "parallel: of other layouts the fastest that fits takes {:.1f} ms "
                           "({})",
                           next->seconds() * 1e3, next->name)
                     : "parallel: no other layout fits";
}

std::string FastestPlan::Describe() const {
  const std::string others = solver->Describe(*plan);
  if (layout_.empty()) return others;
  return others == StepSolver::kAsTheFileSays ? layout_ : layout_ + "; " + others;
}

std::vector<std::string> FastestPlan::Reasons(bool used_only) const {
  std::vector<std::string> reasons = ChoiceReasons(*solver, *plan, budget, used_only);
  if (!layout_.empty()) reasons.insert(reasons.begin(), why_layout_);
  return reasons;
}

SettledRun Settle(const RunConfig& config, const models::Model& model) {
  if (!LeavesChoice(config)) {
    SettledRun settled = {config, CompileFrom(config, model), ""};
    ChooseChannels(settled.config);
    return settled;
  }
  const FastestPlan fastest(config);
  StepSolver& solver = *fastest.solver;
  const memory::Candidate& plan = *fastest.plan;
  std::string text =
      fmt::format("{}; predicted ({}) {:.1f} ms a step, {:.1f} % of it recomputing",
                  fastest.Describe(), RatesText(config, solver.cost()), plan.exact->seconds * 1e3,
                  100 * plan.exact->recompute_seconds / plan.exact->seconds);
  for (const std::string& reason : fastest.Reasons(/*used_only=*/true)) text += "; " + reason;
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
