#include "trainer/step/stage_programs.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/axes.h"
#include "base/error.h"
#include "graph/phase_cut.h"
#include "graph/text.h"
#include "parallel/cut_stage.h"
#include "trainer/step/passes.h"
#include "trainer/step/slot_check.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {
namespace {

using graph::PhasePrograms;
using graph::Program;

class StageStep {
 public:
  StageStep(const CompileOptions& options, std::span<const models::Objective> objectives,
            const ProgramList& wholes, const PassRunner& run)
      : options_(options),
        objectives_(objectives),
        wholes_(wholes),
        run_(run),
        stages_(options.mesh.ranks(kPipelineAxis)),
        stage_(options.mesh.Coordinate(options.rank, kPipelineAxis)) {}

  std::vector<StepEntry> Run(const std::vector<StepEntry>& entries) {
    std::vector<int> wholes;  // for each micro-batch, its uncut program
    for (const StepEntry& entry : entries) {
      wholes.insert(wholes.end(), static_cast<size_t>(entry.times), entry.program);
    }
    const int64_t count = std::ssize(wholes);
    Prove(count);
    std::vector<StepEntry> stage;
    for (const StageRun& run : OneForwardOneBackward(stages_, stage_, count)) {
      stage.push_back(
          {.program = PartOf(wholes[static_cast<size_t>(run.micro_batch)], run.slot, run.action),
           .micro_step = run.micro_batch,
           .ends = run.action == StepAction::kUpdate,
           .updates = entries.front().updates,
           .draw = entries.front().draw + run.micro_batch,
           .action = run.action,
           .slot = run.slot,
           .receives = run.receives,
           .sends = run.sends});
    }
    return stage;
  }

  ProgramList TakePrograms() { return std::move(programs_); }
  const std::set<std::string, std::less<>>& kept() const { return kept_; }

 private:
  void Prove(int64_t micro_batches) const {
    std::vector<StageList> lists;
    for (int64_t stage = 0; stage < stages_; ++stage) {
      lists.push_back(OneForwardOneBackward(stages_, stage, micro_batches));
    }
    ProveSchedule(lists, micro_batches);
  }

  int PartOf(int whole, int64_t slot, StepAction action) {
    const auto [known, fresh] = parts_.try_emplace({whole, slot, action});
    if (fresh) known->second = Keep(Cut(whole, slot, action));
    return known->second;
  }

  const Program& Cut(int whole, int64_t slot, StepAction action) {
    const auto [known, fresh] = cuts_.try_emplace({whole, slot});
    if (fresh) {
      known->second = graph::CutPhases(
          *wholes_[static_cast<size_t>(whole)],
          {.slot = slot, .own = OfSlots(objectives_), .forward_apart = stage_ + 1 < stages_});
      kept_.insert(known->second.kept.begin(), known->second.kept.end());
    }
    switch (action) {
      case StepAction::kForward:
        return known->second.forward;
      case StepAction::kMicroStep:
      case StepAction::kBackward:
        return known->second.backward;
      case StepAction::kUpdate:
        return known->second.update;
    }
    throw InternalError("a stage runs no such part of a micro-step");
  }

  // Returns the index of the program with the same text as `part`, ignoring the program's name.
  // Adds `part` if no such program exists.
  int Keep(const Program& part) {
    Program unnamed = part;
    unnamed.set_name("part");
    const auto [known, fresh] =
        numbers_.try_emplace(graph::ToText(unnamed), static_cast<int>(programs_.size()));
    if (fresh) {
      auto program = std::make_shared<Program>(part);
      graph::PassPipeline passes = PassesOfParts(options_);
      run_(passes, *program);
      programs_.push_back(std::move(program));
    }
    return known->second;
  }

  const CompileOptions& options_;
  const std::span<const models::Objective> objectives_;
  const ProgramList& wholes_;
  const PassRunner& run_;
  const int64_t stages_, stage_;
  // Maps an uncut program and a slot to the cut programs.
  std::map<std::pair<int, int64_t>, PhasePrograms> cuts_;
  // Maps an uncut program, a slot and an action to the index of the cut program.
  std::map<std::tuple<int, int64_t, StepAction>, int> parts_;
  std::map<std::string, int> numbers_;  // maps a program's text to its index
  ProgramList programs_;
  std::set<std::string, std::less<>> kept_;
};

}  // namespace

std::function<bool(const graph::Tensor&)> OfSlots(std::span<const models::Objective> objectives) {
  return [shared = UpdateInputs(objectives)](const graph::Tensor& tensor) {
    return (tensor.role == graph::Role::kInput && !shared.contains(tensor.name)) ||
           std::ranges::find(parallel::kStageTensors, tensor.name) !=
               std::ranges::end(parallel::kStageTensors);
  };
}

std::set<std::string, std::less<>> CutIntoPhases(const CompileOptions& options,
                                                 std::span<const models::Objective> objectives,
                                                 ProgramList& programs,
                                                 std::vector<StepEntry>& entries,
                                                 const PassRunner& run) {
  StageStep step(options, objectives, programs, run);
  entries = step.Run(entries);
  programs = step.TakePrograms();
  CheckSlots(programs, entries, step.kept(), UpdateInputs(objectives));
  return step.kept();
}

StageEvaluation CutEvaluation(const CompileOptions& options,
                              std::span<const models::Objective> objectives, const Program& whole,
                              const PassRunner& run) {
  PhasePrograms parts =
      graph::CutPhases(whole, {.own = OfSlots(objectives), .forward_apart = false});
  const auto finished = [&](Program& part, const std::string& name) {
    part.set_name(name);
    graph::PassPipeline passes = PassesOfParts(options);
    run(passes, part);
    return std::make_shared<const Program>(std::move(part));
  };
  return {finished(parts.backward, whole.name()), finished(parts.update, whole.name() + ".sums")};
}

}  // namespace plimsoll::trainer
