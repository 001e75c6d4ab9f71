#include "trainer/settle/solve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/parallel_each.h"
#include "runtime/gpu_memory.h"
#include "runtime/process_memory.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/budget_error.h"
#include "trainer/settle/calibration.h"
#include "trainer/settle/choice_reasons.h"
#include "trainer/settle/describe_plan.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/gpu_profile.h"
#include "trainer/settle/known_gpus.h"
#include "trainer/settle/link_rates.h"
#include "trainer/settle/step_draft.h"

namespace plimsoll::trainer {
namespace {

using config::MemorySize;
using config::PlaceOrAuto;
using config::RunConfig;
using graph::Program;
using graph::Retention;
using graph::TensorId;
using memory::Fates;

struct MemoryHere {
  int64_t total = 0;
  int64_t free = 0;
  const char* whose = "";
};

// The memory that a key is about: the GPU's or the machine's.
MemoryHere MemoryOf(const RunConfig& config, const std::string& key) {
  if (key != "memory.budget" || DeviceFrom(config) == runtime::DeviceKind::kCpu) {
    const int64_t total = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    return {total, runtime::AvailableMemory(), ""};
  }
  if (!config.planned_gpu.empty()) {
    const KnownGpu& gpu = RequireGpu(config.planned_gpu);
    return {gpu.memory_bytes(), gpu.memory_bytes(), " on the GPU"};
  }
  const std::optional<runtime::GpuMeter> meter = runtime::GpuMeter::Find();
  if (!meter) {
    throw config.Error(key,
                       "is relative to a GPU's memory, and there is no GPU here; give it in "
                       "bytes, as in 24GiB");
  }
  // The memory that this process already holds is available to it.
  const runtime::GpuMemory memory = meter->Measure();
  return {memory.total, memory.free + meter->MeasureProcess().bytes, " on the GPU"};
}

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

std::optional<int64_t> ArenaBudget(const RunConfig& config, const memory::MemoryPlan& plan) {
  if (!config.memory.budget) return std::nullopt;
  return BudgetOf(config).device - (ArenaBytes(config, plan) - plan.arena_bytes);
}

std::optional<CachingOptions> CachingFrom(const config::RunConfig& config) {
  if (config.memory.allocator != config::Allocator::kCaching) return std::nullopt;
  if (DeviceFrom(config) != runtime::DeviceKind::kCpu) {
    throw config.Error("memory.allocator",
                       "caching is there to compare with on the CPU; set device: cpu, or "
                       "memory.allocator: planned");
  }
  if (config.debug.check_arena) {
    throw config.Error("debug.check_arena",
                       "measures the planned arena, which memory.allocator: caching has not; "
                       "leave one of them out");
  }
  if (config.debug.find_nan) {
    throw config.Error("debug.find_nan",
                       "looks at the planned arena, which memory.allocator: caching has not; leave "
                       "one of them out");
  }
  CachingOptions options;
  options.empty_cache_every = config.memory.empty_cache_every;
  if (config.memory.preallocate) {
    if (!config.memory.budget) {
      throw config.Error("memory.preallocate",
                         "takes memory.budget at once; give a budget, or let the cache grow");
    }
    options.preallocate_bytes = BytesOf(*config.memory.budget, config, "memory.budget");
  }
  return options;
}

void RequireBudget(const RunConfig& config) {
  if (config.memory.budget || !LeavesChoice(config)) return;
  throw config.Error(FirstOpen(config),
                     "auto chooses what is fastest within memory.budget, which is not set; set it, "
                     "for example to 90%");
}

memory::CostModel BuiltInCost(const RunConfig& config) {
  return memory::CostModel(DeviceFrom(config) == runtime::DeviceKind::kCuda
                               ? memory::DeviceRates::Gpu(GpuFrom(config))
                               : memory::DeviceRates::Cpu(ThreadsFrom(config)));
}

std::string RatesText(const RunConfig& config, const memory::CostModel& cost) {
  if (cost.measured()) {
    const std::string when = cost.when().empty() ? "" : " " + cost.when();
    return (config.memory.calibration.empty() ? "by rates measured here"
                                              : "by rates of memory.calibration, measured") +
           when;
  }
  const std::string origin = cost.rates().Origin();
  const bool refused = !config.memory.calibrate && config.planned_gpu.empty();
  return fmt::format("by built-in rates{}{}{}", origin.empty() ? "" : " ", origin,
                     refused ? ", memory.calibrate being false" : "");
}

memory::CostModel CostModelFor(const RunConfig& config, std::span<const Program* const> programs) {
  if (!config.memory.calibrate || !config.planned_gpu.empty()) return BuiltInCost(config);
  const Activity activity("timing ops on this device, once");
  CalibrationOptions options;
  options.fixed = !config.memory.calibration.empty();
  options.folder = options.fixed ? config.memory.calibration : CalibrationFolder();
  options.say = [](const std::string& text) { PrintNote(text + "\n"); };
  const memory::Budget budget = BudgetOf(config);
  if (budget.device != memory::Budget::kNone) options.scratch_bytes = budget.device;
  if (DeviceFrom(config) == runtime::DeviceKind::kCuda) {
    memory::CostModel cost = CalibrateGpu(programs, budget.profile.device, options);
    if (const auto link = KnownLink(config)) cost.SetLink(*link);
    return cost;
  }
  ThreadPool pool(ThreadsFrom(config));
  return Calibrate(programs, pool, options);
}

double PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost) {
  double total = 0;
  for (const StepEntry& entry : compiled.step.entries) {
    total +=
        static_cast<double>(entry.times) * cost.ProgramSeconds(*compiled.programs[entry.program]);
  }
  return total;
}

struct StepSolver::Impl {
  RunConfig config;
  std::unique_ptr<models::Model> model;
  ThreadPool pool{OwnCores()};
  std::vector<std::shared_ptr<const StepDraft>> drafts;  // by variant
  std::string why_not_blocks_first;  // where train.blocks_first is open and cannot be
  memory::CostModel cost;
  memory::PlanOptions plan;
  std::unique_ptr<memory::Solver> solver;

  Impl(const RunConfig& run, const StepSolverOptions& options)
      : config(run), model(ModelFrom(run)) {
    MakeDrafts(Alternatives(config, *model));
    cost = options.built_in_rates ? BuiltInCost(config) : Calibrated();
    std::vector<memory::Variant> variants;
    for (const auto& draft : drafts) variants.push_back(VariantOf(draft));
    memory::SolverOptions solver_options;
    solver_options.pool = &pool;
    plan.alignment = runtime::TensorAlignment(drafts.front()->options().device);
    solver_options.plan = plan;
    if (options.coarse) {
      solver_options.options = 6;
      solver_options.work = 0;
    }
    if (options.policies) solver_options.options = 0;
    solver_options.one_memory = IsOneMemory(config);
    solver = std::make_unique<memory::Solver>(std::move(variants), cost, solver_options);
  }

  // Alternatives that differ only in how programs are finished share their drafts.
  void MakeDrafts(std::vector<RunConfig> alternatives) {
    std::vector<std::pair<size_t, std::shared_ptr<const StepDraft>>> made;  // by first alternative
    std::vector<size_t> like(alternatives.size());
    for (size_t i = 0; i < alternatives.size(); ++i) {
      const auto same = std::ranges::find_if(made, [&](const auto& known) {
        return DraftsAlike(alternatives[known.first], alternatives[i]);
      });
      like[i] = static_cast<size_t>(same - made.begin());
      if (same == made.end()) made.emplace_back(i, nullptr);
    }
    ParallelEach(pool, made.size(), [&](size_t i) {
      made[i].second = std::make_shared<StepDraft>(alternatives[made[i].first], *model);
    });
    for (size_t i = 0; i < alternatives.size(); ++i) {
      drafts.push_back(std::make_shared<StepDraft>(*made[like[i]].second, alternatives[i], *model));
    }
    if (config.train.blocks_first == config::OnOrAuto::kAuto) LeaveOutBlocksFirst();
  }

  // Where blocks cannot come first, or one program of all micro-steps would be too long to plan.
  void LeaveOutBlocksFirst() {
    constexpr int64_t kMostNodes = 12'000;
    const auto joined = [](const auto& draft) { return draft->options().blocks_first; };
    const auto first = std::ranges::find_if(drafts, joined);
    if (first == drafts.end()) return;
    int64_t nodes = 0;
    for (size_t p = 0; p < (*first)->programs().size(); ++p) {
      nodes += (*first)->times()[p] * static_cast<int64_t>((*first)->programs()[p]->nodes().size());
    }
    why_not_blocks_first =
        nodes > kMostNodes ? fmt::format("a program of {} micro-steps would be too long to plan",
                                         config.train.accumulate)
                           : (*first)->WhyNotBlocksFirst();
    if (!why_not_blocks_first.empty()) std::erase_if(drafts, joined);
  }

  memory::CostModel Calibrated() const {
    std::vector<const Program*> programs;
    std::vector<memory::StepProgram> copies;  // programs with copies to the host, where allowed
    // The smallest micro-batch stands for calls that would take too long in a larger one.
    for (auto draft = drafts.rbegin(); draft != drafts.rend(); ++draft) {
      for (size_t p = 0; p < (*draft)->programs().size(); ++p) {
        if ((*draft)->times()[p] > 0) programs.push_back((*draft)->programs()[p].get());
      }
    }
    // What updates within the backward pass add.
    std::vector<memory::StepProgram> moved;
    const auto in_backward = std::ranges::find_if(
        drafts, [](const auto& draft) { return draft->options().update_in_backward.has_value(); });
    if (in_backward != drafts.end()) {
      const std::vector<memory::Decision> decisions = (*in_backward)->Decisions();
      moved = (*in_backward)->Realize(decisions, Fates(decisions.size(), Retention::kSave));
      for (const memory::StepProgram& part : moved) programs.push_back(part.program.get());
    }
    std::unique_ptr<StepDraft> smallest;
    // Samples that act on one another cannot be fewer.
    const int64_t least = model->coupled_samples();
    if (least > 0 && drafts.front()->config().train.micro_batch > least) {
      RunConfig one = drafts.front()->config();
      one.train.micro_batch = least;
      one.train.global_batch.reset();
      one.train.global_batch_tokens.reset();
      if (std::ranges::any_of(drafts.front()->bases(),
                              [&](const auto& base) { return TakesLong(*base); })) {
        smallest = std::make_unique<StepDraft>(one, *model);
        for (const auto& base : smallest->bases()) programs.push_back(base.get());
      }
    }
    const std::vector<memory::Decision> decisions = drafts.front()->Decisions();
    Fates away(decisions.size(), Retention::kSave);
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (decisions[d].offload) away[d] = Retention::kOffload;
    }
    if (std::find(away.begin(), away.end(), Retention::kOffload) != away.end()) {
      copies = drafts.front()->Realize(decisions, away);
      for (const memory::StepProgram& part : copies) programs.push_back(part.program.get());
    }
    return CostModelFor(config, programs);
  }

  bool TakesLong(const Program& program) const {
    const memory::CostModel rates = BuiltInCost(config);
    const double seconds = CalibrationOptions().call_seconds;
    return std::any_of(program.nodes().begin(), program.nodes().end(),
                       [&](const graph::Node& node) {
                         return !node.op->view && rates.Ideal(program.CallOf(node).get()) > seconds;
                       });
  }

  memory::Variant VariantOf(const std::shared_ptr<const StepDraft>& draft) const {
    memory::Variant variant;
    variant.name = ChoicesText(config, draft->config());
    variant.bases = draft->bases();
    variant.micro_steps = draft->micro_steps();
    variant.decisions = draft->Decisions();
    for (memory::Decision& decision : variant.decisions) {
      if (decision.offload)
        decision.copy_seconds = CopySeconds(*draft->bases()[decision.base], decision);
    }
    variant.policies = draft->Policies(variant.decisions);
    variant.realize = [draft, decisions = variant.decisions](const Fates& assignment) {
      return draft->Realize(decisions, assignment);
    };
    return variant;
  }

  // Seconds of copying the decision's tensors to the host.
  double CopySeconds(const Program& base, const memory::Decision& decision) const {
    double seconds = 0;
    const memory::DeviceRates& rates = cost.rates();
    const graph::Attributes none;
    for (const std::string& name : decision.tensors) {
      const graph::Tensor& tensor = base.tensor(base.Require(name));
      if (rates.copies_overlap()) {
        seconds += rates.CopySeconds(static_cast<double>(tensor.bytes()));
        continue;
      }
      const graph::TensorType* type = &tensor.type;
      const graph::TensorType* arguments[] = {type};
      seconds += cost.Seconds(
          {graph::OpRegistry::Get().Require("copy_start"), arguments, arguments, none});
    }
    return seconds;
  }
};

int64_t BytesOf(const MemorySize& size, const RunConfig& config, const std::string& key) {
  if (size.base == MemorySize::Base::kAbsolute) return size.bytes;
  const MemoryHere here = MemoryOf(config, key);
  if (size.base == MemorySize::Base::kTotal) {
    return static_cast<int64_t>(size.fraction * static_cast<double>(here.total));
  }
  if (here.free > size.bytes) return here.free - size.bytes;
  throw UserError(
      config.Origin(key) + ": " + key +
          fmt::format(": only {} are free{}, which leaves nothing after {}; subtract less",
                      FormatBytes(here.free), here.whose, FormatBytes(size.bytes)),
      ExitCode::kBudgetNotMet);
}

memory::Budget BudgetOf(const RunConfig& config) {
  memory::Budget budget;
  budget.profile = ProfileFrom(config);
  if (config.memory.budget) {
    const int64_t line = BytesOf(*config.memory.budget, config, "memory.budget");
    budget.device = budget.profile.ArenaWithin(line);
    if (budget.device < 0) {
      throw UserError(
          fmt::format("{}: memory.budget: {} is less than the {} that the process takes of the GPU "
                      "beside the arena ({}); raise it",
                      config.Origin("memory.budget"), FormatBytes(line),
                      FormatBytes(budget.profile.overhead_bytes()),
                      memory::PartsText(budget.profile)),
          ExitCode::kBudgetNotMet);
    }
  }
  if (config.memory.host_budget) {
    budget.host = BytesOf(*config.memory.host_budget, config, "memory.host_budget");
  }
  return budget;
}

bool LeavesChoice(const RunConfig& config) { return FirstOpen(config) != nullptr; }

StepSolver::StepSolver(const RunConfig& config, const StepSolverOptions& options)
    : impl_(std::make_unique<Impl>(config, options)) {}
StepSolver::~StepSolver() = default;

memory::Solver& StepSolver::solver() { return *impl_->solver; }
const models::Model& StepSolver::model() const { return *impl_->model; }
const memory::CostModel& StepSolver::cost() const { return impl_->cost; }
const memory::PlanOptions& StepSolver::plan_options() const { return impl_->plan; }

const RunConfig& StepSolver::config() const { return impl_->config; }

const RunConfig& StepSolver::ConfigOf(size_t variant) const {
  return impl_->drafts[variant]->config();
}

RunConfig StepSolver::ConfigOf(const memory::Candidate& candidate) const {
  return ConfigOf(candidate.variant);
}

std::string StepSolver::WhyLeftOut(const Knob& knob) const {
  const std::string why = WhyUnused(knob, impl_->config);
  const bool joins = std::string_view(knob.key) == "train.blocks_first";
  return why.empty() && joins ? impl_->why_not_blocks_first : why;
}

CompileOptions StepSolver::OptionsOf(const memory::Candidate& candidate) const {
  const StepDraft& draft = *impl_->drafts[candidate.variant];
  CompileOptions options = draft.options();
  options.dump_directory = impl_->config.debug.dump_programs;
  if (!draft.open()) return options;
  options.checkpointing = {};
  options.checkpointing.policy = checkpointing::Options::Policy::kExplicit;
  const std::vector<memory::Decision>& decisions =
      impl_->solver->variants()[candidate.variant].decisions;
  for (size_t d = 0; d < decisions.size(); ++d) {
    if (candidate.fates[d] == Retention::kSave) continue;
    for (const std::string& name : decisions[d].tensors) {
      options.retention[draft.objectives()[decisions[d].base].name][name] = candidate.fates[d];
    }
  }
  return options;
}

std::string StepSolver::Describe(const memory::Candidate& candidate) const {
  const memory::Variant& variant = impl_->solver->variants()[candidate.variant];
  const std::vector<models::Objective>& objectives = impl_->drafts[candidate.variant]->objectives();
  std::vector<std::string> parts;
  if (!variant.name.empty()) parts.push_back(variant.name);
  for (size_t base = 0; base < objectives.size(); ++base) {
    std::vector<memory::Decision> decisions;
    Fates assignment;
    for (size_t d = 0; d < variant.decisions.size(); ++d) {
      if (variant.decisions[d].base != static_cast<int>(base)) continue;
      decisions.push_back(variant.decisions[d]);
      assignment.push_back(candidate.fates[d]);
    }
    if (decisions.empty()) continue;
    const std::string& name = objectives[base].name;
    parts.push_back((name.empty() ? "" : name + ": ") + DescribeAssignment(decisions, assignment));
  }
  return parts.empty() ? "as the file says" : fmt::format("{}", fmt::join(parts, "; "));
}

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

memory::ExactPlan SmallestPlan(const RunConfig& config, const memory::Budget& budget, bool coarse) {
  StepSolver solver(config, {.built_in_rates = true, .coarse = coarse});
  return *solver.solver().Smallest(budget).exact;
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
