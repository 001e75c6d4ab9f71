#include "trainer/plan/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/bytes.h"
#include "base/columns.h"
#include "base/message.h"
#include "base/output_file.h"
#include "memory/cost_model.h"
#include "memory/plan.h"
#include "memory/report.h"
#include "runtime/ranks/world.h"
#include "trainer/config/derived_values.h"
#include "trainer/config/rank_counts.h"
#include "trainer/config/run_config.h"
#include "trainer/plan/check_ranks.h"
#include "trainer/plan/code_products.h"
#include "trainer/plan/load_planned.h"
#include "trainer/plan/plan_json.h"
#include "trainer/plan/plan_page.h"
#include "trainer/plan/plan_table.h"
#include "trainer/plan/stage_table.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/channels.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/core_share.h"
#include "trainer/resolve/data_rate.h"
#include "trainer/resolve/epochs.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/known_gpus.h"
#include "trainer/resolve/link_rates.h"
#include "trainer/resolve/look_at_data.h"
#include "trainer/resolve/monitor.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/source_from.h"
#include "trainer/resolve/stage_plans.h"
#include "trainer/resolve/stages_from.h"
#include "trainer/resolve/step_solver.h"
#include "trainer/resolve/ways_to_fit.h"
#include "trainer/step/compile.h"
#include "trainer/step/data_reads.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

std::string FitText(const config::RunConfig& config, const memory::MemoryPlan& plan,
                    const std::string& way_out) {
  const memory::DeviceProfile profile = ProfileFrom(config);
  const MemoryLine line = MemoryLineOf(config);
  const int64_t process = profile.ProcessBytes(ArenaBytes(config, plan));
  const bool gpu = !profile.device.empty();
  std::string text =
      line.Admits(process)
          ? fmt::format("fits {}: takes {}{}, {} to spare", line.Text(), FormatBytes(process),
                        gpu ? " of " + profile.device : "", FormatBytes(line.bytes - process))
          : fmt::format("does not fit {}: takes {}, {} too much", line.Text(), FormatBytes(process),
                        FormatBytes(process - line.bytes));
  if (gpu && plan.host_arena_bytes > 0) {
    text += fmt::format("; and {} of the host, pinned", FormatBytes(plan.host_arena_bytes));
  }
  if (plan.host_input_bytes > 0) {
    text += fmt::format("; and {} of the host for batches", FormatBytes(plan.host_input_bytes));
  }
  if (!way_out.empty()) text += "; " + way_out;
  return text;
}

std::string StepText(const config::RunConfig& config, const CompileOptions& options,
                     const memory::CostModel& cost, double seconds) {
  return fmt::format("predicted step: {} ({})", SpeedText(options, seconds),
                     RatesText(config, cost));
}

// Whether a run's plan is within its limit (MemoryLineOf).
bool Fits(const config::RunConfig& config, const memory::MemoryPlan& plan) {
  return MemoryLineOf(config).Admits(ProfileFrom(config).ProcessBytes(ArenaBytes(config, plan)));
}

// Parts of an answer's first lines in addition to bytes and time; each may be empty.
struct Remarks {
  std::string chosen = {};   // the solver's choices (StepSolver::Describe)
  std::string way_out = {};  // changes that would make the plan fit (WaysToFit::Text)
  std::optional<DataSpeed> data = {};
};

// The first lines of the answer for a run whose step takes `seconds` by the rates of `cost`.
std::string Verdict(const config::RunConfig& config, const PlannedStep& step,
                    const memory::CostModel& cost, double seconds, const Remarks& remarks) {
  std::string text;
  const auto add = [&](const std::string& line) {
    text += Wrapped(line, kLineColumns, "  ") + "\n";
  };
  add(FitText(config, step.Largest().plan, remarks.way_out));
  add(StepText(config, step.first.options, cost, seconds));
  if (remarks.data) add(DataSpeedText(*remarks.data));
  if (!remarks.chosen.empty()) add("chosen: " + remarks.chosen);
  return text;
}

using config::RunConfig;
using nlohmann::ordered_json;

struct Planned {
  RunConfig config;
  std::optional<DataRate> rate;  // if the data is on this machine
};

// Whether the plan is for a step on this machine, so that its data may be timed.
bool TimesData(const PlanCommand& command, const RunConfig& config) {
  return command.sweep == 0 && command.largest.empty() && !command.parameters &&
         command.diff.empty() && config.planned_gpu.empty() && config.memory.calibrate &&
         config.memory.calibration.empty();
}

// Compares how fast a rank prepares data with its step. If the ranks were not started, their
// numbers of cores are unknown.
std::optional<DataSpeed> DataSpeedFrom(const PlanCommand& command, const RunConfig& config,
                                       const std::optional<DataRate>& rate,
                                       const CompiledStep& compiled, double seconds) {
  if (!rate || RanksFrom(config) != command.started) return std::nullopt;
  const int64_t samples = compiled.options.micro_batch * DataReads(compiled.step).count();
  return DataSpeedOf(config, *rate, DataWorkersFrom(config), CoresOfRank(),
                     static_cast<double>(samples), seconds);
}

// Loads the run file, with the overrides from the command's own options.
Planned Load(const PlanCommand& command) {
  std::vector<std::string> sets;
  if (!command.budget.empty()) sets.push_back("memory.budget=" + command.budget);
  config::Loaded loaded = LoadPlanned(command, sets, config::RankCount::Started(command.started));
  std::optional<DataRate> rate;
  LookAtData(loaded, command.started, TimesData(command, loaded.config) ? &rate : nullptr);
  for (const std::string& warning : loaded.warnings) PrintWarning(warning);
  RunConfig config = loaded.config;
  if (!command.budget.empty()) config.origins["memory.budget"] = "--budget";
  const bool asks = !command.budget.empty() || command.sweep > 0 || !command.largest.empty();
  if (asks && !config.IsSet("checkpointing.policy")) {
    config.checkpointing.policy = config::CheckpointPolicy::kAuto;
  }
  const config::ParallelConfig& parallel = config.parallel;
  CheckMesh(config, command.started > 1 ? command.started
                                        : parallel.data_ranks() * config::NonDataRanks(config));
  if (FirstOpenLayout(config) == nullptr) ChooseChannels(config);
  return {std::move(config), rate};
}

void PrintCompiled(const RunConfig& config, const models::Model& model, const PlannedStep& step,
                   const memory::CostModel& cost, double predicted, const Remarks& remarks) {
  const CompiledStep& compiled = step.first;
  const CompileOptions& options = compiled.options;
  PrintAnswer(Verdict(config, step, cost, predicted, remarks) + "\n");
  PrintAnswer(fmt::format("{}: {}; {} per micro-step, {} a step\n", config.file,
                          ParametersText(model, options), BatchText(options),
                          Counted(options.accumulate, "micro-step")));
  for (const graph::PassReport& report : compiled.passes) {
    // A stage has a program for each phase and slot, and all need the same workspaces.
    const bool of_part = !options.stages.empty() && report.pass == "workspaces";
    if (!report.result.changed || of_part) continue;
    const std::string line =
        fmt::format("  {:<14} {:<12} {}", report.program, report.pass, report.result.summary);
    PrintAnswer(Wrapped(line, kLineColumns, std::string(30, ' ')) + "\n");
  }
  if (const int64_t ranks = options.mesh.ranks(kDataAxis); ranks > 1) {
    PrintAnswer(fmt::format("  the plan of each of {} data ranks: all are equal\n", ranks));
  }
  if (!options.stages.empty()) {
    PrintAnswer(StageTable(step, cost, {}).Text());
    PrintAnswer("  below, of stage 0:\n");
  }
  if (const std::string epochs = EpochsText(config); !epochs.empty()) {
    PrintAnswer(fmt::format("  {}\n", epochs));
  }
  PrintAnswer(memory::Report(compiled.plan));
  if (compiled.options.device == runtime::DeviceKind::kCuda) {
    const std::string line = ProcessText(ProfileFrom(config), compiled.plan.arena_bytes);
    PrintAnswer(Wrapped(line, kLineColumns, "  ") + "\n");
  }
  PrintAnswer(fmt::format("FLOPs a step: {}  (of the model alone: {})\n", FormatCount(step.Flops()),
                          FormatCount(compiled.model_flops)));
  if (options.amp.fp8.enabled) {
    PrintAnswer(Wrapped(Text(CountCodeProducts(compiled)), kLineColumns, "  ") + "\n");
  }
  if (compiled.plan.host_arena_bytes > 0 && cost.rates().copies_overlap()) {
    PrintAnswer(Wrapped(LinkText(cost.rates()), kLineColumns, "  ") + "\n");
  }
}

// Draws the plan if the command asks for it.
void WritePage(const PlanCommand& command, const RunConfig& config, const models::Model& model,
               const CompiledStep& compiled) {
  if (command.html.empty()) return;
  const std::optional<int64_t> line = ArenaBudget(config, compiled.plan);
  WriteOutput(command.html, "--html", PlanPage(model, compiled, command.file, line));
  if (!command.json) PrintAnswer(fmt::format("drawn in {}\n", command.html));
}

// Checks the steps of all ranks if the command asks for it.
std::optional<RanksCheck> CheckFor(const PlanCommand& command, const models::Model& model,
                                   const CompiledStep& compiled) {
  if (!command.check) return std::nullopt;
  return CheckRanks(model, compiled);
}

void PrintCheck(const std::optional<RanksCheck>& check) {
  if (check) PrintAnswer(Wrapped(check->Text(), kLineColumns, "  ") + "\n");
}

// Compiles a plan, warns of keys without effect, and refuses a monitored metric that the plan
// lacks.
CompiledStep CompilePlan(const RunConfig& config, const models::Model& model,
                         const CompileOptions& options) {
  CompiledStep compiled = Compile(model, options);
  const std::string warning = RefusalWarning(config, compiled);
  if (!warning.empty()) PrintWarning(warning);
  (void)MonitorFrom(config, compiled.metrics);
  return compiled;
}

// Compiles the plans of all stages.
PlannedStep PlanStep(const RunConfig& config, const models::Model& model,
                     const CompileOptions& options) {
  PlannedStep step = {CompilePlan(config, model, options), {}};
  step.others = CompileOtherStages(model, step.first);
  for (const CompiledStep& other : step.others) {
    step.first.model_flops += other.model_flops;
    step.first.model_flops_of_codes += other.model_flops_of_codes;
  }
  return step;
}

// The changes that would make a plan fit its GPU.
WaysToFit WaysToFitGpu(const RunConfig& config, const memory::MemoryPlan& plan) {
  const memory::Budget budget = BudgetOf(config);
  return FindWaysToFit(
      config, {budget.profile.ProcessBytes(ArenaBytes(config, plan)), plan.host_arena_bytes},
      {MemoryLineOf(config).bytes, budget.host});
}

std::string WayOut(const RunConfig& config, const WaysToFit& ways) {
  if (config.parallel.ranks > 1) {
    return ways.Text("take larger GPUs or more of them, or make the model smaller");
  }
  const std::string& gpu = config.planned_gpu;
  return ways.Text(fmt::format(
      "plimsoll config --for {}{} looks for a run that fits; or take a larger GPU, or "
      "have several share the model (plimsoll plan --ranks)",
      config.file, gpu.empty() ? "" : fmt::format(" --device {}", RequireGpu(gpu).key)));
}

ordered_json WaysJson(const WaysToFit& ways) {
  ordered_json list = ordered_json::array();
  std::vector<Way> all = ways.single;
  if (ways.together) all.push_back(*ways.together);
  for (const Way& way : all) {
    list.push_back(
        {{"set", way.sets}, {"process_bytes", way.needs.process}, {"host_bytes", way.needs.host}});
  }
  return list;
}

// Plans a run without open choices. A plan that is too large for its GPU is shown, too, because its
// parts tell where to save. With `object` the plan is written there, and nothing is printed.
ExitCode PlanFixed(const Planned& planned, const PlanCommand& command,
                   ordered_json* object = nullptr) {
  RunConfig config = planned.config;
  const Activity activity("planning");
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  ChooseStages(config, *model);
  const PlannedStep step = PlanStep(config, *model, CompileFrom(config, *model));
  const CompiledStep& compiled = step.first;
  const memory::MemoryPlan& plan = step.Largest().plan;
  const bool fits = Fits(config, plan);
  const bool too_large = !fits && MemoryLineOf(config).of_card;
  if (!too_large) CheckBudget(config, plan, StageOf(step.Largest()));
  const WaysToFit ways = too_large ? WaysToFitGpu(config, plan) : WaysToFit();
  const memory::CostModel cost = CostModelFor(config, step.Programs());
  const double predicted = PredictSeconds(compiled, step.others, cost);
  const std::optional<DataSpeed> data =
      DataSpeedFrom(command, config, planned.rate, compiled, predicted);
  const std::optional<RanksCheck> check = CheckFor(command, *model, compiled);
  if (command.json || object != nullptr) {
    ordered_json made = PlanObject(config, *model, step.Largest(), cost, predicted);
    if (data) made["data"] = DataSpeedJson(*data);
    if (!compiled.options.stages.empty()) {
      made["flops_per_step"] = step.Flops();
      const std::vector<std::string> policies(compiled.options.stages.size(),
                                              ToString(config.checkpointing.policy));
      made["stages"] = StageTable(step, cost, policies).Json();
    }
    made["fits"] = fits;
    if (too_large) made["ways_to_fit"] = WaysJson(ways);
    if (check) made["check"] = check->Json();
    if (object == nullptr) {
      PrintAnswer(made.dump(1) + "\n");
    } else {
      *object = std::move(made);
    }
  } else {
    const std::string way_out = too_large ? WayOut(config, ways)
                                : fits
                                    ? ""
                                    : "try --budget 90%: Plimsoll then looks for a plan that fits";
    PrintCompiled(config, *model, step, cost, predicted, {.way_out = way_out, .data = data});
    PrintCheck(check);
  }
  if (object == nullptr) WritePage(command, config, *model, compiled);
  return too_large ? ExitCode::kBudgetNotMet : ExitCode::kDone;
}

// Plans the stages of a pipeline, each with the solver's choices. With `object` the plan is written
// there, and nothing is printed.
void PlanStages(const Planned& planned, const PlanCommand& command, ordered_json* object) {
  const StagePlans plans(planned.config);
  const RunConfig& config = plans.config();
  const PlannedStep step = PlanStep(config, plans.model(), plans.Options());
  const double predicted = PredictSeconds(step.first, step.others, plans.cost());
  const std::optional<DataSpeed> data =
      DataSpeedFrom(command, config, planned.rate, step.first, predicted);
  const std::optional<RanksCheck> check = CheckFor(command, plans.model(), step.first);
  if (command.json || object != nullptr) {
    ordered_json made = PlanObject(planned.config, plans.model(), step.Largest(), plans.cost(),
                                   predicted, ChoicesJson(planned.config, config));
    if (data) made["data"] = DataSpeedJson(*data);
    made["flops_per_step"] = step.Flops();
    made["stages"] = StageTable(step, plans.cost(), plans.Texts()).Json();
    made["fits"] = true;
    made["budget_bytes"] = plans.budget().process();
    if (check) made["check"] = check->Json();
    if (object == nullptr) {
      PrintAnswer(made.dump(1) + "\n");
    } else {
      *object = std::move(made);
    }
  } else {
    PrintCompiled(config, plans.model(), step, plans.cost(), predicted,
                  {.chosen = plans.Describe(), .data = data});
    PrintCheck(check);
  }
  if (object == nullptr) WritePage(command, config, plans.model(), step.first);
}

// Plans a run with the solver's choices, and lists the other candidates. With `object` the plan is
// written there without these, and nothing is printed.
void PlanChosen(const Planned& planned, const PlanCommand& command,
                ordered_json* object = nullptr) {
  const RunConfig& config = planned.config;
  if (config.parallel.pipeline > 1) return PlanStages(planned, command, object);
  const FastestPlan fastest(config);
  const memory::Budget& budget = fastest.budget;
  StepSolver& solver = *fastest.solver;
  const memory::Candidate* chosen = fastest.plan;
  const models::Model& model = solver.model();
  const PlannedStep step = PlanStep(config, model, solver.OptionsOf(*chosen));
  const CompiledStep& compiled = step.first;
  const RunConfig chosen_config = solver.ConfigOf(*chosen);
  const double predicted = chosen->exact->seconds;
  if (object != nullptr) {
    *object = PlanObject(config, model, compiled, solver.cost(), predicted,
                         ChoicesJson(config, chosen_config));
    return;
  }
  const CandidateTable table(solver, budget, chosen);
  const std::optional<DataSpeed> data =
      DataSpeedFrom(command, chosen_config, planned.rate, compiled, predicted);
  const std::optional<RanksCheck> check = CheckFor(command, model, compiled);
  if (command.json) {
    ordered_json made = PlanObject(config, model, compiled, solver.cost(), predicted,
                                   ChoicesJson(config, chosen_config));
    if (data) made["data"] = DataSpeedJson(*data);
    made["fits"] = true;
    made["budget_bytes"] = budget.process();
    made["candidates"] = table.Json();
    if (check) made["check"] = check->Json();
    PrintAnswer(fmt::format("{}\n", made.dump(1)));
  } else {
    PrintCompiled(chosen_config, model, step, solver.cost(), predicted,
                  {.chosen = fastest.Describe(), .data = data});
    PrintAnswer(fmt::format("\n{}", table.Text()));
    for (const std::string& reason : fastest.Reasons(/*used_only=*/false)) {
      PrintAnswer(Wrapped("  " + reason, kLineColumns, "    ") + "\n");
    }
    PrintCheck(check);
  }
  WritePage(command, config, model, compiled);
}

void PlanSweep(const RunConfig& config, int count, bool json) {
  const Activity activity("looking for the fastest plan of each budget");
  StepSolver solver(config);
  memory::Budget budget = BudgetOf(config);
  budget.device = memory::Budget::kNone;
  if (solver.solver().Fastest(budget) == nullptr) RefuseBudget(budget, solver);
  const SweepTable table(solver, count, budget);
  if (json) {
    PrintAnswer(fmt::format("{}\n", ordered_json{{"front", table.Json()}}.dump(1)));
  } else {
    PrintAnswer(table.Text());
  }
}

}  // namespace

ExitCode PlanInto(const PlanCommand& command, ordered_json& object) {
  const Planned planned = Load(command);
  MeasureLink(planned.config, *runtime::MakeGroupOfOne());
  if (!LeavesChoice(planned.config)) return PlanFixed(planned, command, &object);
  PlanChosen(planned, command, &object);
  return ExitCode::kDone;
}

ExitCode RunPlan(const PlanCommand& command) {
  if (command.sweep > 0 && !command.largest.empty()) {
    throw UserError("plimsoll plan: --sweep and --max ask different questions; give one of them");
  }
  if (command.sweep > 0 && !command.budget.empty()) {
    throw UserError("plimsoll plan: --sweep goes through all budgets; leave out --budget");
  }
  if (!command.html.empty() &&
      (command.sweep > 0 || !command.largest.empty() || command.ranks > 0)) {
    throw UserError("plimsoll plan: --html draws one plan; leave out --sweep, --max and --ranks");
  }
  if (command.parameters && (command.sweep > 0 || !command.largest.empty() || command.ranks > 0 ||
                             !command.budget.empty() || !command.html.empty())) {
    throw UserError("plimsoll plan: --parameters lists them alone; give no other question");
  }
  if (command.check && (command.sweep > 0 || !command.largest.empty() || command.ranks > 0 ||
                        command.parameters || !command.diff.empty())) {
    throw UserError(
        "plimsoll plan: --check is of one plan; leave out --sweep, --max, --ranks, --parameters "
        "and --diff");
  }
  if (!command.diff.empty()) return RunPlanDiff(command);
  if (!command.fail_above.empty()) {
    throw UserError("plimsoll plan: --fail-above is for --diff: name the plan to compare with");
  }
  if (command.ranks > 0) {
    if (command.sweep > 0 || !command.largest.empty() || !command.budget.empty()) {
      throw UserError("plimsoll plan: --ranks goes through meshes alone; give no other question");
    }
    config::Loaded loaded = LoadRanks(command);
    LookAtData(loaded, command.ranks);
    for (const std::string& warning : loaded.warnings) PrintWarning(warning);
    CheckMesh(loaded.config, command.ranks);
    PrintMeshes(loaded.config, command.json);
    return ExitCode::kDone;
  }
  const Planned planned = Load(command);
  const RunConfig& config = planned.config;
  if (command.check) RequireCheckable(RanksFrom(config));
  if (command.parameters) {
    PrintParameters(config, command.json);
    return ExitCode::kDone;
  }
  RefuseInput(command.html, "--html");  // checked before any slow work
  MeasureLink(config, *runtime::MakeGroupOfOne());
  if (const char* open = FirstOpenLayout(config);
      open != nullptr && (command.sweep > 0 || !command.largest.empty())) {
    throw config.Error(open,
                       "auto has an answer for one budget and batch; for --sweep and --max give a "
                       "number");
  }
  if (config.parallel.pipeline > 1 && (command.sweep > 0 || !command.largest.empty())) {
    throw config.Error("parallel.pipeline",
                       "stages are planned for one budget and size; for --sweep and --max use 1");
  }
  if (command.sweep > 0) {
    PlanSweep(config, command.sweep, command.json);
  } else if (!command.largest.empty()) {
    PrintLargest(config, command.largest, command.json);
  } else if (LeavesChoice(config)) {
    PlanChosen(planned, command);
  } else {
    return PlanFixed(planned, command);
  }
  return ExitCode::kDone;
}

}  // namespace plimsoll::trainer
