#include "trainer/resolve/step_solver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parallel_each.h"
#include "trainer/resolve/calibration.h"
#include "trainer/resolve/fates_text.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/step_draft.h"
#include "trainer/resolve/step_variants.h"
#include "trainer/step/input_places.h"

namespace plimsoll::trainer {

using config::RunConfig;
using graph::Program;
using graph::Retention;
using memory::Fates;

struct StepSolver::Impl {
  RunConfig config;
  int64_t stage;
  std::unique_ptr<models::Model> model;
  std::shared_ptr<ThreadPool> pool = PlanningThreads();
  StepVariants steps;
  memory::CostModel cost;
  memory::PlanOptions plan;
  std::unique_ptr<memory::Solver> solver;

  Impl(const RunConfig& run, const StepSolverOptions& options)
      : config(run),
        stage(options.stage),
        model(ModelFrom(run)),
        steps(config, *model, *pool, options.stage) {
    cost = options.built_in_rates ? BuiltInCost(config) : Calibrated();
    std::vector<memory::Variant> variants;
    for (size_t i = 0; i < steps.size(); ++i) variants.push_back(VariantOf(i));
    memory::SolverOptions solver_options;
    solver_options.pool = pool.get();
    plan.alignment = runtime::TensorAlignment(DeviceFrom(config));
    solver_options.plan = plan;
    if (options.coarse) {
      solver_options.options = 6;
      solver_options.work = 0;
    }
    if (options.policies) solver_options.options = 0;
    solver_options.one_memory = IsOneMemory(config);
    solver = std::make_unique<memory::Solver>(std::move(variants), cost, solver_options);
  }

  memory::CostModel Calibrated() const {
    std::vector<std::shared_ptr<const StepDraft>> drafts(steps.size());
    ParallelEach(*pool, drafts.size(), [&](size_t i) { drafts[i] = steps.Draft(i); });
    std::vector<const Program*> programs;
    // Starts with the smallest micro-batch: calls that would take too long with a larger one are
    // scaled from it.
    for (const auto& draft : drafts | std::views::reverse) {
      for (const memory::StepProgram& part : draft->programs()) {
        if (part.times > 0) programs.push_back(part.program.get());
      }
    }
    std::vector<memory::StepProgram> finished;  // must outlive `programs`
    const auto add = [&](std::vector<memory::StepProgram> step) {
      for (const memory::StepProgram& part : step) programs.push_back(part.program.get());
      std::ranges::move(step, std::back_inserter(finished));
    };
    // Adds the calls that updates within the backward pass make.
    const auto in_backward = std::ranges::find_if(
        drafts, [](const auto& draft) { return draft->options().update_in_backward.has_value(); });
    if (in_backward != drafts.end()) {
      const std::vector<memory::Decision> decisions = (*in_backward)->Decisions();
      add((*in_backward)->BuildPrograms(decisions, Fates(decisions.size(), Retention::kSave)));
    }
    std::unique_ptr<StepDraft> smallest;
    // Smaller micro-batches would split samples that affect one another.
    const models::SampleCoupling coupling = model->sample_coupling();
    const int64_t least = coupling.smallest_micro_batch();
    if (!coupling.whole_micro_batch() && drafts.front()->config().train.micro_batch > least) {
      RunConfig one = drafts.front()->config();
      one.train.SetMicroSteps(least, one.train.accumulate);
      if (std::ranges::any_of(drafts.front()->bases(),
                              [&](const auto& base) { return TakesLong(*base); })) {
        smallest = std::make_unique<StepDraft>(one, *model, stage);
        for (const auto& base : smallest->bases()) programs.push_back(base.get());
      }
    }
    // Adds the calls for copies to the host, if such copies are allowed.
    const std::vector<memory::Decision> decisions = drafts.front()->Decisions();
    Fates away(decisions.size(), Retention::kSave);
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (decisions[d].offload) away[d] = Retention::kOffload;
    }
    if (memory::Offloads(away)) add(drafts.front()->BuildPrograms(decisions, away));
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

  memory::Variant VariantOf(size_t index) const {
    const RunConfig& run = steps.config(index);
    memory::Variant variant;
    variant.name = ChoicesText(config, run);
    variant.least_device_bytes = steps.LeastDeviceBytes(index);
    variant.activations =
        fmt::format("{} {} {}", run.train.micro_batch, ToString(run.parallel.sequence),
                    ToString(run.train.blocks_first));
    variant.make = [this, index](memory::Variant& made) { Make(steps.Draft(index), made); };
    return variant;
  }

  void Make(const std::shared_ptr<const StepDraft>& draft, memory::Variant& variant) const {
    variant.bases = draft->bases();
    variant.micro_steps = draft->micro_steps();
    variant.slots = std::max<int64_t>(1, draft->slots());
    variant.slot_bytes = draft->SlotBytes();
    std::vector<const Program*> programs;
    for (const memory::StepProgram& part : draft->programs()) {
      programs.push_back(part.program.get());
    }
    variant.host_input_bytes =
        HostInputBytesOf(draft->options(), draft->objectives(), programs).all();
    variant.decisions = draft->Decisions();
    for (memory::Decision& decision : variant.decisions) {
      if (decision.offload)
        decision.copy_seconds = CopySeconds(*draft->bases()[decision.base], decision);
    }
    variant.policies = draft->Policies(variant.decisions);
    variant.build = [draft, decisions = variant.decisions](const Fates& assignment) {
      return draft->BuildPrograms(decisions, assignment);
    };
    if (!draft->options().stages.empty()) {
      variant.cut = [draft, decisions = variant.decisions](const Fates& assignment) {
        return draft->Cut(decisions, assignment);
      };
    }
    variant.apart = [draft, decisions = variant.decisions](const Fates& assignment) {
      return draft->Apart(decisions, assignment);
    };
  }

  // The seconds for copying the decision's tensors to the host.
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

StepSolver::StepSolver(const RunConfig& config, const StepSolverOptions& options)
    : impl_(std::make_unique<Impl>(config, options)) {}
StepSolver::~StepSolver() = default;

memory::Solver& StepSolver::solver() { return *impl_->solver; }
const models::Model& StepSolver::model() const { return *impl_->model; }
const memory::CostModel& StepSolver::cost() const { return impl_->cost; }
const memory::PlanOptions& StepSolver::plan_options() const { return impl_->plan; }

const RunConfig& StepSolver::config() const { return impl_->config; }
int64_t StepSolver::stage() const { return impl_->stage; }

const RunConfig& StepSolver::ConfigOf(size_t variant) const { return impl_->steps.config(variant); }

RunConfig StepSolver::ConfigOf(const memory::Candidate& candidate) const {
  return ConfigOf(candidate.variant);
}

std::string StepSolver::WhyLeftOut(const Knob& knob) const {
  const std::string why = WhyUnused(knob, impl_->config);
  const bool joins = std::string_view(knob.key) == "train.blocks_first";
  return why.empty() && joins ? impl_->steps.why_not_blocks_first() : why;
}

CompileOptions StepSolver::OptionsOf(const memory::Candidate& candidate) const {
  const std::shared_ptr<const StepDraft> draft = impl_->steps.Draft(candidate.variant);
  CompileOptions options = draft->options();
  options.dump_directory = impl_->config.debug.dump_programs;
  if (!draft->open()) return options;
  options.checkpointing = {};
  options.checkpointing.policy = checkpointing::Options::Policy::kExplicit;
  const std::vector<memory::Decision>& decisions =
      impl_->solver->variant(candidate.variant).decisions;
  for (size_t d = 0; d < decisions.size(); ++d) {
    if (candidate.fates[d] == Retention::kSave) continue;
    for (const std::string& name : decisions[d].tensors) {
      options.retention[draft->objectives()[decisions[d].base].name][name] = candidate.fates[d];
    }
  }
  return options;
}

std::string StepSolver::Describe(const memory::Candidate& candidate) const {
  const memory::Variant& variant = impl_->solver->variant(candidate.variant);
  const std::vector<models::Objective> objectives = impl_->model->objectives();
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
    parts.push_back((name.empty() ? "" : name + ": ") + FatesText(decisions, assignment));
  }
  return parts.empty() ? kAsTheFileSays : fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace plimsoll::trainer
