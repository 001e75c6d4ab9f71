#include "trainer/resolve/step_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "base/axes.h"
#include "base/bytes.h"
#include "base/error.h"
#include "checkpointing/retention_policy.h"
#include "checkpointing/saved.h"
#include "graph/block.h"
#include "graph/objective.h"
#include "graph/pass.h"
#include "graph/step_shape.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/step/join_programs.h"
#include "trainer/step/pass_options.h"
#include "trainer/step/passes.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {

using config::CheckpointPolicy;
using config::RunConfig;
using graph::Program;
using graph::Retention;
using memory::Fates;

StepDraft::StepDraft(const RunConfig& made, const models::Model& model, int64_t stage)
    : config_(made), options_(CompileFrom(made, model)) {
  if (HasStages(options_)) options_.rank = options_.mesh.RankAt({{kPipelineAxis, stage}});
  options_.dump_directory.clear();
  options_.stop_after.clear();
  options_.draft = true;
  CompiledStep drafted = Compile(model, options_);
  options_.draft = false;
  for (auto& program : drafted.programs) programs_.push_back({std::move(program), 0});
  objectives_ = drafted.objectives;
  entries_ = drafted.step.entries;
  std::vector<int> last(objectives_.size());
  for (const StepEntry& entry : entries_) {
    programs_[entry.program].times += entry.times;
    const int objective = entry.updates.front().objective;
    programs_[entry.program].base = objective;
    last[objective] = entry.program;
  }
  for (memory::StepProgram& part : programs_) {
    if (part.times > 0) continue;
    auto program = std::make_shared<Program>(*part.program);
    Finish(*program, "");
    part.program = std::move(program);
  }
  for (const int program : last) bases_.push_back(programs_[program].program);
  if (HasStages(options_)) CutEvaluations();
}

// Cuts the programs of evaluation, which are the same for all decisions.
void StepDraft::CutEvaluations() {
  std::vector<memory::StepProgram> all;
  for (const memory::StepProgram& part : programs_) {
    if (part.times > 0) {
      all.push_back(part);
      continue;
    }
    const StageEvaluation parts = CutEvaluation(options_, objectives_, *part.program, Runner());
    all.push_back({parts.stage, 0});
    all.push_back({parts.sums, 0});
  }
  programs_ = std::move(all);
}

StepDraft::StepDraft(const StepDraft& draft, const RunConfig& made, const models::Model& model)
    : StepDraft(draft) {
  config_ = made;
  options_ = CompileFrom(made, model);
  options_.rank = draft.options_.rank;
  options_.dump_directory.clear();
  options_.stop_after.clear();
}

bool StepDraft::open() const { return config_.checkpointing.policy == CheckpointPolicy::kAuto; }

std::vector<memory::StepProgram> StepDraft::BuildPrograms(
    const std::vector<memory::Decision>& decisions, const Fates& assignment) const {
  return Finished(decisions, assignment, Form::kJoined).programs;
}

memory::FinishedStep StepDraft::Cut(const std::vector<memory::Decision>& decisions,
                                    const Fates& assignment) const {
  return Finished(decisions, assignment, Form::kCut);
}

std::vector<memory::StepProgram> StepDraft::Apart(const std::vector<memory::Decision>& decisions,
                                                  const Fates& assignment) const {
  return Finished(decisions, assignment, Form::kApart).programs;
}

int64_t StepDraft::slots() const {
  const int64_t stages = options_.mesh.ranks(kPipelineAxis),
                stage = options_.mesh.Coordinate(options_.rank, kPipelineAxis);
  return stage + 1 < stages ? SlotsOfStage(stages, stage, options_.accumulate) : 0;
}

int64_t StepDraft::SlotBytes() const {
  const int64_t alignment = runtime::TensorAlignment(options_.device);
  const auto own = OfSlots(objectives_);
  int64_t bytes = 0;
  for (const graph::Tensor& tensor : bases_.front()->tensors()) {
    if (!tensor.persistent || tensor.alias || !own(tensor)) continue;
    bytes += RoundUp(tensor.bytes(), alignment);
  }
  return bytes;
}

PassRunner StepDraft::Runner() const {
  return [this](graph::PassPipeline& passes, Program& program) {
    passes.set_verify(config_.debug.verify_drafts);
    passes.Run(program);
  };
}

memory::FinishedStep StepDraft::Finished(const std::vector<memory::Decision>& decisions,
                                         const Fates& assignment, Form form) const {
  ProgramList programs;
  for (const memory::StepProgram& part : programs_) {
    if (part.times == 0) continue;  // the other programs follow the training programs
    auto program = std::make_shared<Program>(*part.program);
    if (!open()) checkpointing::TagActivations(options_.checkpointing).Run(*program);
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (decisions[d].base != part.base) continue;
      for (const std::string& name : decisions[d].tensors) {
        program->mutable_tensor(program->Require(name)).retention = assignment[d];
      }
    }
    const std::string& objective = objectives_[static_cast<size_t>(part.base)].name;
    Finish(*program, graph::OfObjective(objective, "loss"));
    programs.push_back(std::move(program));
  }
  std::vector<StepEntry> entries = entries_;
  const PassRunner run = Runner();
  ProgramJoiner joiner(options_, objectives_, programs, entries, run);
  joiner.JoinMicroSteps();
  if (form != Form::kApart) joiner.JoinUpdates();
  const bool whole = HasStages(options_) && form != Form::kCut;
  memory::FinishedStep finished;
  if (form == Form::kCut) {
    finished.order.kept = CutIntoPhases(options_, objectives_, programs, entries, run);
    finished.order.runs = OrderOfRuns(entries);
  }
  std::vector<memory::StepProgram>& step = finished.programs;
  for (std::shared_ptr<const Program>& program : programs) {
    if (whole) {
      auto uncut = std::make_shared<Program>(*program);
      graph::PassPipeline passes = PassesOfParts(options_);
      run(passes, *uncut);
      program = std::move(uncut);
    }
    step.push_back({.program = program, .times = 0, .slots = whole ? slots() : 0});
  }
  for (const StepEntry& entry : entries) {
    step[entry.program].times += entry.times;
    step[entry.program].base = entry.updates.back().objective;
  }
  std::ranges::copy_if(programs_, std::back_inserter(step),
                       [](const memory::StepProgram& part) { return part.times == 0; });
  return finished;
}

StepDraft::ResidentBytes StepDraft::OnDevice() const {
  using graph::Role;
  ResidentBytes resident;
  std::set<std::string_view> counted;  // objectives may read the same parameters
  for (const auto& base : bases_) {
    for (const graph::Tensor& tensor : base->tensors()) {
      const bool parameter = tensor.role == Role::kParameter;
      const bool counts =
          parameter || tensor.role == Role::kMaster || tensor.role == Role::kOptimizerState;
      const bool is_resident =
          tensor.persistent && !tensor.alias && tensor.place == graph::Place::kDevice;
      if (!counts || !is_resident || !counted.insert(tensor.name).second) continue;
      resident.all += tensor.bytes();
      if (parameter) resident.parameters += tensor.bytes();
    }
  }
  return resident;
}

std::string StepDraft::WhyNotBlocksFirst() const {
  if (!options_.blocks_first) return "";
  CompileOptions unmoved = options_;
  unmoved.update_in_backward.reset();
  unmoved.on_host = {};
  ProgramList programs;
  for (const memory::StepProgram& part : programs_) programs.push_back(part.program);
  std::vector<StepEntry> entries = entries_;
  std::string why;
  const auto run = [&](graph::PassPipeline& passes, Program& program) {
    passes.set_verify(config_.debug.verify_drafts);
    for (const graph::PassReport& report : passes.Run(program)) {
      if (report.result.refused && why.empty()) why = report.result.summary;
    }
  };
  ProgramJoiner(unmoved, objectives_, programs, entries, run).JoinMicroSteps();
  return why;
}

void StepDraft::Finish(Program& program, const std::string& loss) const {
  const ProgramKind kind = loss.empty() ? ProgramKind::kEvaluate : ProgramKind::kTrain;
  const bool update = graph::FirstUpdate(program) < program.nodes().size();
  graph::PassPipeline passes =
      Passes({.options = options_, .purpose = {.kind = kind, .update = update, .metrics = {loss}}},
             {Slice::kFinish});
  passes.set_verify(config_.debug.verify_drafts);
  passes.Run(program);
}

std::map<std::string, Retention> StepDraft::Tagged(const checkpointing::Options& policy,
                                                   int base) const {
  std::map<std::string, Retention> tagged;
  Program program = *bases_[base];
  try {
    checkpointing::TagActivations(policy).Run(program);
  } catch (const UserError&) {
    return tagged;
  }
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.retention != Retention::kSave) tagged[tensor.name] = tensor.retention;
  }
  return tagged;
}

std::vector<memory::Decision> StepDraft::Decisions() const {
  std::vector<memory::Decision> decisions;
  if (!open()) return decisions;
  for (size_t base = 0; base < bases_.size(); ++base) {
    AddDecisions(static_cast<int>(base), decisions);
  }
  return decisions;
}

// Whether all programs have the tensor. The first program may have a micro-step's loss only as the
// running sum.
bool StepDraft::InAllPrograms(const std::string& tensor, int base) const {
  return std::ranges::none_of(programs_, [&](const memory::StepProgram& part) {
    return part.times > 0 && part.base == base && part.program->Find(tensor) == graph::kNoTensor;
  });
}

void StepDraft::AddDecisions(int base, std::vector<memory::Decision>& decisions) const {
  const Program& program = *bases_[base];
  checkpointing::Options offload{.reshard = false};
  offload.offload.patterns = config_.checkpointing.offload;
  std::map<std::string, Retention> may_offload;
  if (!config_.checkpointing.offload.empty()) {
    Program tagged = program;
    checkpointing::TagActivations(options_.checkpointing).Run(tagged);  // checks the patterns
    may_offload = Tagged(offload, base);
  }
  std::map<int, size_t> by_node;
  const int64_t alignment = runtime::TensorAlignment(options_.device);
  for (const checkpointing::SavedTensor& saved : checkpointing::FindSaved(program)) {
    if (saved.read_at_once || !saved.recomputable) continue;
    if (saved.parameter && !options_.checkpointing.reshard) continue;
    if (!InAllPrograms(program.tensor(saved.tensor).name, base)) continue;
    const auto [found, fresh] = by_node.try_emplace(saved.producer, decisions.size());
    if (fresh) {
      memory::Decision& decision = decisions.emplace_back();
      decision.base = base;
      decision.node = saved.producer;
      decision.block = saved.block;
      decision.block_name = graph::BlockIn(program.nodes()[saved.producer].scope);
      decision.parameter = saved.parameter;
    }
    memory::Decision& decision = decisions[found->second];
    const std::string& name = program.tensor(saved.tensor).name;
    decision.tensors.push_back(name);
    decision.bytes += RoundUp(saved.bytes, alignment);
    if (may_offload.count(name) > 0) decision.offload = true;
  }
}

std::vector<std::pair<std::string, Fates>> StepDraft::Policies(
    const std::vector<memory::Decision>& decisions) const {
  std::vector<std::pair<std::string, Fates>> policies;
  if (!open()) return policies;
  using Policy = checkpointing::Options::Policy;
  const auto add_one = [&](const std::string& name, checkpointing::Options policy) {
    policy.reshard = options_.checkpointing.reshard;
    std::vector<std::map<std::string, Retention>> tagged;
    for (size_t base = 0; base < bases_.size(); ++base) {
      tagged.push_back(Tagged(policy, static_cast<int>(base)));
    }
    Fates assignment(decisions.size(), Retention::kSave);
    for (size_t d = 0; d < decisions.size(); ++d) {
      const auto& of_base = tagged[decisions[d].base];
      const auto found = of_base.find(decisions[d].tensors.front());
      if (found != of_base.end()) assignment[d] = found->second;
    }
    const bool fresh = std::none_of(policies.begin(), policies.end(),
                                    [&](const auto& known) { return known.second == assignment; });
    if (fresh) policies.emplace_back(name, std::move(assignment));
  };
  // Adds the policy; if offloading is allowed, also the policy with kept activations offloaded.
  const auto add = [&](const std::string& name, checkpointing::Options policy) {
    add_one(name, policy);
    if (config_.checkpointing.offload.empty()) return;
    policy.offload.patterns = config_.checkpointing.offload;
    add_one(name + " with offload", policy);
  };
  add("none", {});
  checkpointing::Options named;
  named.policy = Policy::kSelective;
  named.recompute = {{"norms", "activations"}, "", /*by_default=*/true};
  add("selective", named);
  named = {};
  named.policy = Policy::kBlock;
  add("block", named);
  named.policy = Policy::kEvery;
  for (int64_t every : {2, 3, 4, 6, 8}) {
    named.every = every;
    add(fmt::format("every {}", every), named);
  }
  return policies;
}

}  // namespace plimsoll::trainer
