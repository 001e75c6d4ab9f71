#include "trainer/resolve/resolved_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/function_ref.h"
#include "memory/interconnect.h"
#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/channels.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/stage_plans.h"
#include "trainer/resolve/stages_from.h"

namespace plimsoll::trainer {

using checkpointing::Options;
using config::RunConfig;
using nlohmann::json;

namespace {

// Why the chosen plan does not use the other choice, whose value is `other_value`; empty if no
// variant has that choice.
std::string WhyNot(FunctionRef<bool(const config::RunConfig&)> other_choice,
                   const char* other_value, StepSolver& solver, const memory::Candidate& chosen,
                   const memory::Budget& budget) {
  std::vector<bool> without;
  for (size_t variant = 0; variant < solver.solver().variants(); ++variant) {
    without.push_back(other_choice(solver.ConfigOf(variant)));
  }
  if (std::ranges::find(without, true) == without.end()) return "";
  const std::string with = fmt::format("because with {}", other_value);
  const int64_t least = solver.solver().LeastDeviceBytes(without);
  if (least > budget.device) {
    return fmt::format("{} what stays in memory all through the step takes {} at least", with,
                       FormatBytes(budget.profile.ProcessBytes(least)));
  }
  const memory::Candidate* const other = solver.solver().Fastest(budget, without);
  if (other == nullptr) return with + " no plan fits";
  if (other->exact->seconds <= chosen.exact->seconds) return "which is as fast";
  return fmt::format("{} the fastest plan that fits takes {:.1f} ms", with,
                     other->exact->seconds * 1e3);
}

// Encodes the choices of ResolveRun() for another rank, which runs the same program and has the
// same configuration.
std::string Encode(const RunConfig& config, const ResolvedRun& resolved) {
  std::map<std::string, std::string> knobs;
  for (const Knob& knob : Knobs()) {
    const std::string value = knob.get(resolved.config);
    if (value != knob.get(config)) knobs[knob.key] = value;
  }
  const CompileOptions& options = resolved.options;
  return json{{"knobs", knobs},
              {"channels", resolved.config.parallel.nccl_max_ctas.value_or(0)},
              {"gpu", options.gpu},
              {"stages", resolved.config.parallel.stages},
              {"stage_retentions", options.stage_retentions},
              {"explicit", options.checkpointing.policy == Options::Policy::kExplicit},
              {"retention", options.retention},
              {"chosen", resolved.chosen}}
      .dump();
}

ResolvedRun Decode(const std::string& text, const RunConfig& config, const models::Model& model) {
  const json made = json::parse(text);
  ResolvedRun resolved{config, {}, made["chosen"]};
  const json& knobs = made["knobs"];
  for (const Knob& knob : Knobs()) {
    if (knobs.contains(knob.key)) knob.set(resolved.config, knobs[knob.key]);
  }
  resolved.config.parallel.nccl_max_ctas = made["channels"];
  made["stages"].get_to(resolved.config.parallel.stages);
  CompileOptions& options = resolved.options = CompileFrom(resolved.config, model);
  options.gpu = made["gpu"];  // all ranks run the same program
  if (!made["explicit"]) return resolved;
  options.checkpointing = {};
  options.checkpointing.policy = Options::Policy::kExplicit;
  made["retention"].get_to(options.retention);
  made["stage_retentions"].get_to(options.stage_retentions);
  return resolved;
}

// The plans of one layout of the ranks, within its budget.
struct LayoutPlans {
  std::string name;  // text from LayoutText
  memory::Budget budget;
  std::unique_ptr<StepSolver> solver = nullptr;
  double least_seconds = 0;  // lower bound on the time of a step

  // A lower bound on the bytes of the process.
  int64_t least_bytes() const {
    return budget.profile.ProcessBytes(solver->solver().LeastDeviceBytes({}));
  }
};

LayoutPlans PlansOf(const RunConfig& open, const RankLayout& made) {
  if (!made.problem.empty()) throw UserError(made.problem);
  RunConfig layout = made.config;
  ChooseChannels(layout);
  LayoutPlans plans = {.name = LayoutText(open, layout), .budget = BudgetOf(layout)};
  RequireRoomForParameters(layout, plans.budget);
  plans.solver = std::make_unique<StepSolver>(layout);
  plans.least_seconds = plans.solver->solver().LeastSeconds(plans.budget);
  return plans;
}

// The plans of all possible layouts with room for the parameters. Throws a UserError if there is no
// such layout.
std::vector<LayoutPlans> PlansOfLayouts(const RunConfig& config) {
  std::vector<LayoutPlans> all;
  std::exception_ptr problem;
  for (const RankLayout& layout : LayoutsOf(config)) {
    try {
      all.push_back(PlansOf(config, layout));
    } catch (const UserError& error) {
      // Among layouts without room, the last one has the fewest parameters on a rank.
      if (!problem || error.code() == ExitCode::kBudgetNotMet) problem = std::current_exception();
    }
  }
  if (all.empty()) std::rethrow_exception(problem);
  return all;
}

// Throws a UserError unless layouts can be compared, if the run leaves one open.
void RequireComparable(const RunConfig& config) {
  const char* const open = FirstOpenLayout(config);
  if (open == nullptr) return;
  if (config.parallel.open_mesh() && !config.train.global_batch &&
      !config.train.global_batch_tokens) {
    throw config.Error("parallel.tensor",
                       "auto deals out a batch whose size must be known; set train.global_batch, "
                       "or give a number of ranks");
  }
  if (config.parallel.open_mesh() && ModelFrom(config)->sample_coupling().whole_micro_batch()) {
    throw config.Error("parallel.tensor",
                       "auto would choose the mathematics, too: all samples of a micro-batch act "
                       "on one another in this model (docs/batch_norm.md); give a number");
  }
  const int64_t ranks = RanksFrom(config);
  if (DeviceFrom(config) == runtime::DeviceKind::kCpu || ranks <= memory::kGpusOfHost) return;
  throw config.Error(open,
                     fmt::format("auto compares layouts of the GPUs of one host, {} at most; give "
                                 "a number (plimsoll plan --ranks {} says what fits)",
                                 memory::kGpusOfHost, ranks));
}

}  // namespace

std::vector<std::string> ChoiceReasons(StepSolver& solver, const memory::Candidate& chosen,
                                       const memory::Budget& budget, bool used_only) {
  const config::RunConfig& made = solver.ConfigOf(chosen.variant);
  std::vector<std::string> reasons;
  for (const Knob& knob : Techniques()) {
    if (!knob.IsOpen(solver.config())) continue;
    if (knob.IsUsed(made)) {
      const std::string why =
          WhyNot([&](const config::RunConfig& other) { return !knob.IsUsed(other); }, knob.unused(),
                 solver, chosen, budget);
      reasons.push_back(
          fmt::format("{}: {}{}{}", knob.key, knob.used(), why.empty() ? "" : ", ", why));
    } else if (!used_only) {
      const std::string why = solver.WhyLeftOut(knob);
      reasons.push_back(fmt::format(
          "{}: {}, {}", knob.key, knob.unused(),
          why.empty() ? fmt::format("since no plan that fits is faster with {}", knob.used())
                      : "because " + why));
    }
  }
  if (solver.config().memory.host_blocks || !made.memory.host_blocks) return reasons;
  // Whether a variant has the same placements, but for all blocks.
  const auto all_blocks = [&](const config::RunConfig& other) {
    return !other.memory.host_blocks && std::ranges::all_of(Techniques(), [&](const Knob& knob) {
      return knob.IsUsed(other) == knob.IsUsed(made);
    });
  };
  reasons.push_back(fmt::format("memory.host_blocks: {}, {}", *made.memory.host_blocks,
                                WhyNot(all_blocks, "all", solver, chosen, budget)));
  return reasons;
}

size_t FastestLayout(std::span<const LayoutCost> layouts) {
  const double least = std::ranges::min(layouts, {}, &LayoutCost::seconds).seconds;
  const LayoutCost* best = nullptr;
  for (const LayoutCost& layout : layouts) {
    if (layout.seconds > least * (1 + kAsFast)) continue;
    if (best == nullptr || layout.bytes < best->bytes) best = &layout;
  }
  return static_cast<size_t>(best - layouts.data());
}

FastestPlan::FastestPlan(const RunConfig& config) {
  RequireBudget(config);
  RequireComparable(config);
  std::vector<LayoutPlans> layouts = PlansOfLayouts(config);
  // Starts with the layout with the lowest bound: its fastest plan often makes the search of other
  // layouts unnecessary.
  std::ranges::stable_sort(layouts, {}, &LayoutPlans::least_seconds);
  std::vector<std::pair<LayoutPlans*, const memory::Candidate*>> found;
  std::vector<LayoutCost> costs;
  // The longest time that counts as equally fast as the fastest plan.
  double most = std::numeric_limits<double>::infinity();
  for (LayoutPlans& layout : layouts) {
    if (layout.least_seconds > most) break;
    const memory::Candidate* const fastest =
        layout.solver->solver().Fastest(layout.budget, {}, most);
    if (fastest == nullptr || fastest->exact->seconds > most) continue;
    found.emplace_back(&layout, fastest);
    costs.push_back(
        {fastest->exact->seconds, layout.budget.profile.ProcessBytes(fastest->exact->taken_bytes)});
    most = std::min(most, fastest->exact->seconds * (1 + kAsFast));
  }
  if (found.empty()) {
    const LayoutPlans& least = *std::ranges::min_element(layouts, {}, &LayoutPlans::least_bytes);
    RefuseBudget(least.budget, *least.solver);
  }
  LayoutPlans* best = nullptr;
  std::tie(best, plan) = found[FastestLayout(costs)];
  budget = best->budget;
  solver = std::move(best->solver);
  layout_ = best->name;
}

std::string FastestPlan::Describe() const {
  const std::string others = solver->Describe(*plan);
  if (layout_.empty()) return others;
  return others == StepSolver::kAsTheFileSays ? layout_ : layout_ + "; " + others;
}

std::vector<std::string> FastestPlan::Reasons(bool used_only) const {
  std::vector<std::string> reasons = ChoiceReasons(*solver, *plan, budget, used_only);
  if (!layout_.empty()) {
    reasons.insert(reasons.begin(), fmt::format("parallel: {}, since no other layout has a faster "
                                                "plan that fits, and none as fast takes less",
                                                layout_));
  }
  return reasons;
}

namespace {

ResolvedRun SettleStages(const RunConfig& config) {
  const StagePlans plans(config);
  return {plans.config(), plans.Options(),
          fmt::format("{}; predicted ({}) {:.1f} ms a step", plans.Describe(),
                      RatesText(config, plans.cost()), plans.Seconds() * 1e3)};
}

}  // namespace

ResolvedRun ResolveRun(const RunConfig& config, const models::Model& model) {
  if (!LeavesChoice(config)) {
    ResolvedRun resolved = {config, {}, ""};
    ChooseStages(resolved.config, model);
    resolved.options = CompileFrom(resolved.config, model);
    ChooseChannels(resolved.config);
    return resolved;
  }
  if (config.parallel.pipeline > 1) return SettleStages(config);
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

ResolvedRun ResolveOnFirst(const RunConfig& config, const models::Model& model,
                           runtime::RankGroup& ranks) {
  if (ranks.size() == 1) return ResolveRun(config, model);
  std::string text;
  if (ranks.rank() == 0) text = Encode(config, ResolveRun(config, model));
  return Decode(ranks.Broadcast(text), config, model);
}

}  // namespace plimsoll::trainer
