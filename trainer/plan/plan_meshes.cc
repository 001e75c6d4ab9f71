// `plimsoll plan --ranks N`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/columns.h"
#include "base/error.h"
#include "base/message.h"
#include "base/parallel_each.h"
#include "trainer/plan/plan_table.h"
#include "trainer/plan/stage_table.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/channels.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/stage_plans.h"
#include "trainer/resolve/step_solver.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

using graph::Role;
using nlohmann::ordered_json;

// One layout of the ranks, and the memory of each rank with it.
struct LayoutRow {
  Mesh mesh;
  int64_t zero = 0;
  std::string problem = {};  // an error's message if the layout is impossible
  std::string reason = {};   // short form of `problem` for the table
  bool chosen = false;       // whether the solver chose the plan
  memory::MemoryPlan plan = {};
  // Time of a step, and `unit`s per second of all ranks; 0 means not predicted.
  double step_seconds = 0, per_second = 0;
  std::string unit = {}, rates = {};
  int64_t process_bytes = 0;
  // The limit of a rank. On a CPU it is memory.budget alone, because ranks share the machine's
  // memory.
  MemoryLine line = {};
  int64_t host_budget = memory::Budget::kNone;

  bool fits() const {
    return problem.empty() && line.Admits(process_bytes) && plan.host_bytes() <= host_budget;
  }
};

PlannedStep StepOf(const models::Model& model, const CompileOptions& options) {
  PlannedStep step = {Compile(model, options), {}};
  step.others = CompileOtherStages(model, step.first);
  return step;
}

PlannedStep FixedPlan(const config::RunConfig& config) {
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  return StepOf(*model, CompileFrom(config, *model));
}

// The fastest plan within the budget, or otherwise the smallest, found by a quick search.
PlannedStep ChosenPlan(const config::RunConfig& config) {
  if (config.parallel.pipeline > 1) {
    const StagePlans plans = StagePlans::Quick(config);
    return StepOf(plans.model(), plans.Options());
  }
  const memory::Budget budget = BudgetOf(config);
  StepSolver solver(config, {.built_in_rates = true, .coarse = true});
  const memory::Candidate* const fastest = solver.solver().Fastest(budget);
  const memory::Candidate& plan = fastest == nullptr ? solver.solver().Smallest(budget) : *fastest;
  return StepOf(solver.model(), solver.OptionsOf(plan));
}

// A problem's text for the table. If the problem names a value that the user did not give, omits
// its place and the advice after the last semicolon.
std::string ReasonOf(const config::RunConfig& config, const std::string& problem) {
  for (const Knob& knob : Knobs()) {
    const std::string place = fmt::format("{}: {}: ", config.Origin(knob.key), knob.key);
    if (knob.reach < Reach::kLayout || !problem.starts_with(place)) continue;
    const std::string reason = problem.substr(place.size());
    return reason.substr(0, reason.rfind("; "));
  }
  return problem;
}

LayoutRow PlanLayout(const RankLayout& made) {
  LayoutRow layout = {.mesh = MeshFrom(made.config), .zero = made.config.parallel.zero.value_or(0)};
  try {
    if (!made.problem.empty()) throw UserError(made.problem);
    config::RunConfig config = made.config;
    layout.chosen = LeavesChoice(config);
    if (layout.chosen) TakeGpuAsBudget(config);
    RequireBudget(config);
    ChooseChannels(config);
    const PlannedStep step = layout.chosen ? ChosenPlan(config) : FixedPlan(config);
    const CompiledStep& compiled = step.first;
    layout.plan = step.Largest().plan;
    const bool on_gpus = DeviceFrom(config) == runtime::DeviceKind::kCuda;
    if (on_gpus && layout.mesh.size() <= memory::kGpusOfHost) {
      const memory::CostModel cost = BuiltInCost(config);
      layout.step_seconds = PredictSeconds(compiled, step.others, cost);
      layout.per_second = TokensPerStep(compiled.options) / layout.step_seconds;
      layout.unit = UnitOfWork(compiled.options);
      layout.rates = RatesText(config, cost);
    }
    layout.process_bytes = ProfileFrom(config).ProcessBytes(ArenaBytes(config, layout.plan));
    layout.line = config.memory.budget || on_gpus ? MemoryLineOf(config)
                                                  : MemoryLine{"", memory::Budget::kNone};
    layout.host_budget = BudgetOf(config).host;
  } catch (const UserError& error) {
    layout.problem = error.what();
    layout.reason = ReasonOf(made.config, layout.problem);
  }
  return layout;
}

// The bytes of tensors with one of these roles: at the device's peak, and on the host throughout
// the step.
struct RoleBytes {
  int64_t device = 0, host = 0;

  std::string Text() const { return host > device ? "on host" : FormatBytes(device); }
};

RoleBytes BytesOfRoles(const memory::MemoryPlan& plan, std::initializer_list<Role> roles) {
  RoleBytes bytes;
  for (const Role role : roles) bytes.device += plan.bytes_of(role);
  for (const memory::PersistentTensor& tensor : plan.persistent) {
    const bool counts = std::ranges::find(roles, tensor.role) != roles.end();
    if (counts && tensor.place == graph::Place::kHost) bytes.host += tensor.bytes;
  }
  return bytes;
}

// A table cell for each axis, at least as wide as the axis's name.
template <typename CellOf>
std::string AxisCells(const Mesh& mesh, const CellOf& cell_of) {
  std::string cells;
  for (const MeshAxis& axis : mesh.axes()) {
    const size_t width = std::max<size_t>(6, axis.name.size() + 1);
    cells += fmt::format("{:>{}} ", cell_of(axis), width);
  }
  return cells;
}

std::string Line(const LayoutRow& layout, bool fastest) {
  const memory::MemoryPlan& plan = layout.plan;
  const bool beyond = layout.problem.empty() && !layout.fits();
  const std::string head = (beyond    ? "-"
                            : fastest ? "*"
                                      : " ") +
                           AxisCells(layout.mesh, [](const MeshAxis& axis) { return axis.ranks; }) +
                           fmt::format("{:>5}", layout.zero);
  if (!layout.problem.empty()) return fmt::format("{}  {}\n", head, layout.reason);
  const auto bytes = [&](std::initializer_list<Role> roles) {
    return BytesOfRoles(plan, roles).Text();
  };
  const std::string line = fmt::format(
      "{} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10} {:>10}", head, bytes({Role::kParameter}),
      bytes({Role::kGradient}), bytes({Role::kMaster, Role::kOptimizerState}),
      bytes({Role::kActivation}), FormatBytes(plan.arena_bytes), FormatBytes(plan.host_arena_bytes),
      FormatBytes(layout.process_bytes));
  if (layout.step_seconds == 0) return line + "\n";
  return fmt::format("{} {:>11} {:>9}\n", line, fmt::format("{:.1f} ms", layout.step_seconds * 1e3),
                     FormatCount(layout.per_second));
}

std::string FastestText(const LayoutRow& layout) {
  std::string keys;
  for (const MeshAxis& axis : layout.mesh.axes()) {
    keys += fmt::format("{}: {}, ", axis.name, axis.ranks);
  }
  return fmt::format("fastest: parallel: {{{}zero: {}}}, {:.1f} ms a step, {} {}s/s {}\n", keys,
                     layout.zero, layout.step_seconds * 1e3, FormatCount(layout.per_second),
                     layout.unit, layout.rates);
}

// The fastest layout; nullptr if none fits, or if times are not predicted.
const LayoutRow* FastestOf(const std::vector<LayoutRow>& layouts) {
  std::vector<const LayoutRow*> fitting;
  std::vector<LayoutCost> costs;
  for (const LayoutRow& layout : layouts) {
    if (!layout.fits() || layout.per_second == 0) continue;
    fitting.push_back(&layout);
    costs.push_back({1 / layout.per_second, layout.process_bytes});
  }
  return costs.empty() ? nullptr : fitting[FastestLayout(costs)];
}

// Explains the marks in the rows; empty without marks.
std::string LegendText(const std::vector<LayoutRow>& layouts, bool fastest) {
  std::vector<std::string> marks;
  if (fastest) {
    marks.push_back(
        fmt::format("* the fastest that fits, of those within {:g} % the one that takes "
                    "the fewest bytes",
                    100 * kAsFast));
  }
  const auto beyond = std::ranges::find_if(
      layouts, [](const LayoutRow& layout) { return layout.problem.empty() && !layout.fits(); });
  if (beyond != layouts.end()) {
    marks.push_back("- beyond " + (beyond->line.Admits(beyond->process_bytes)
                                       ? std::string("memory.host_budget")
                                       : beyond->line.Text()));
  }
  if (marks.empty()) return "";
  return Wrapped(fmt::format("{}", fmt::join(marks, "; ")), kLineColumns, "  ") + "\n";
}

ordered_json Json(const LayoutRow& layout) {
  ordered_json json;
  for (const MeshAxis& axis : layout.mesh.axes()) json[axis.name] = axis.ranks;
  json["zero"] = layout.zero;
  if (!layout.problem.empty()) {
    json["problem"] = layout.reason;
    return json;
  }
  const auto bytes = [&](std::initializer_list<Role> roles) {
    const RoleBytes both = BytesOfRoles(layout.plan, roles);
    return both.device + both.host;
  };
  json["parameter_bytes"] = bytes({Role::kParameter});
  json["gradient_bytes"] = bytes({Role::kGradient});
  json["state_bytes"] = bytes({Role::kMaster, Role::kOptimizerState});
  json["activation_bytes"] = layout.plan.bytes_of(Role::kActivation);
  json["arena_bytes"] = layout.plan.arena_bytes;
  json["host_arena_bytes"] = layout.plan.host_arena_bytes;
  json["process_bytes"] = layout.process_bytes;
  if (layout.step_seconds > 0) {
    json["predicted_step_ms"] = layout.step_seconds * 1e3;
    json[layout.unit + "s_per_s"] = layout.per_second;
  }
  json["fits"] = layout.fits();
  return json;
}

}  // namespace

void PrintMeshes(const config::RunConfig& open, bool json) {
  const int64_t ranks = RanksFrom(open);
  const Activity activity(fmt::format("planning every way to lay out {} ranks", ranks));
  const std::vector<RankLayout> made = LayoutsOf(open);
  std::vector<LayoutRow> layouts(made.size());
  ParallelEach(*PlanningThreads(), made.size(),
               [&](size_t i) { layouts[i] = PlanLayout(made[i]); });
  // If a mesh is impossible for all stages of ZeRO, lists it once.
  const auto repeats = std::ranges::unique(layouts, [](const LayoutRow& a, const LayoutRow& b) {
    return !b.problem.empty() && a.problem == b.problem && a.mesh == b.mesh;
  });
  layouts.erase(repeats.begin(), repeats.end());
  const auto impossible = [](const LayoutRow& layout) { return !layout.problem.empty(); };
  if (std::ranges::all_of(layouts, impossible)) throw UserError(layouts.front().problem);
  if (json) {
    ordered_json list = ordered_json::array();
    for (const LayoutRow& layout : layouts) list.push_back(Json(layout));
    PrintAnswer(fmt::format("{}\n", ordered_json{{"ranks", ranks}, {"meshes", list}}.dump(1)));
    return;
  }
  const LayoutRow& possible = *std::ranges::find_if_not(layouts, impossible);
  const LayoutRow* const fastest = FastestOf(layouts);
  if (fastest != nullptr) PrintAnswer(FastestText(*fastest));
  PrintAnswer(fmt::format("What each of {} ranks takes{}, at the peak{}\n", ranks,
                          open.parallel.pipeline > 1 ? " of the stage with the largest arena" : "",
                          possible.chosen ? ", by the fastest plan that fits" : ""));
  const std::string axes = AxisCells(possible.mesh, [](const MeshAxis& axis) { return axis.name; });
  PrintAnswer(fmt::format(
      " {}{:>5} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10} {:>10}{}\n", axes, "zero", "parameters",
      "gradients", "state", "activations", "arena", "host", "process",
      possible.step_seconds > 0 ? fmt::format(" {:>11} {:>9}", "step", possible.unit + "s/s")
                                : ""));
  for (const LayoutRow& layout : layouts) PrintAnswer(Line(layout, &layout == fastest));
  PrintAnswer(LegendText(layouts, fastest != nullptr));
}

}  // namespace plimsoll::trainer
