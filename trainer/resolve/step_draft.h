// A step whose programs are built except for one decision: which activations are kept. The budget
// solver finishes programs many times from one draft.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "memory/solver.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"
#include "trainer/step/stage_programs.h"

namespace plimsoll::trainer {

class StepDraft {
 public:
  // `config` may leave only checkpointing.policy open. `stage`: the stage of a pipeline to draft.
  StepDraft(const config::RunConfig& config, const models::Model& model, int64_t stage = 0);
  // A copy of `draft` with other values of knobs that change only how programs are finished
  // (Reach::kFinish).
  StepDraft(const StepDraft& draft, const config::RunConfig& config, const models::Model& model);

  const config::RunConfig& config() const { return config_; }
  const CompileOptions& options() const { return options_; }
  // The unfinished training programs, followed by the other programs (times: 0). The other programs
  // keep nothing for a backward pass, so they are the same for all decisions.
  const std::vector<memory::StepProgram>& programs() const { return programs_; }
  // For each objective, the program of the last micro-step, which includes the update.
  const std::vector<std::shared_ptr<const graph::Program>>& bases() const { return bases_; }
  const std::vector<models::Objective>& objectives() const { return objectives_; }
  // True if checkpointing.policy is auto.
  bool open() const;
  // The number of micro-steps in a finished program; each program in bases() has one micro-step.
  int64_t micro_steps() const { return options_.micro_steps_per_program; }
  // The number of micro-batches whose activations a pipeline stage keeps at once, if the stage's
  // forward pass is a separate program. 0 if the draft has no stages, or is the last stage.
  int64_t slots() const;
  // The bytes of a slot, which holds one micro-batch in flight, without the kept activations.
  int64_t SlotBytes() const;
  // Why the micro-steps cannot run block by block. Empty if they do, or if train.blocks_first is
  // off.
  std::string WhyNotBlocksFirst() const;

  // Bytes that stay on the device throughout a step: `parameters` for the parameters alone, `all`
  // for parameters and optimizer state.
  struct ResidentBytes {
    int64_t parameters = 0, all = 0;
  };
  ResidentBytes OnDevice() const;

  // The decisions to make in bases(); empty when the file gives a policy. Throws a UserError for a
  // pattern of checkpointing.offload that matches nothing.
  std::vector<memory::Decision> Decisions() const;
  // The named policies without duplicates. Each has its name and, for each of `decisions`, whether
  // its tensors are saved, recomputed or offloaded.
  std::vector<std::pair<std::string, memory::Fates>> Policies(
      const std::vector<memory::Decision>& decisions) const;
  // The finished programs. Apart: a separate program for each objective. BuildPrograms: objectives
  // joined as they run. For a pipeline stage both return programs of complete micro-steps; Cut
  // returns the stage's programs cut as they run.
  std::vector<memory::StepProgram> Apart(const std::vector<memory::Decision>& decisions,
                                         const memory::Fates& assignment) const;
  std::vector<memory::StepProgram> BuildPrograms(const std::vector<memory::Decision>& decisions,
                                                 const memory::Fates& assignment) const;
  memory::FinishedStep Cut(const std::vector<memory::Decision>& decisions,
                           const memory::Fates& assignment) const;

 private:
  // Runs the passes after the decision about which activations to keep. `loss` is the loss that the
  // program trains, or empty.
  void Finish(graph::Program& program, const std::string& loss) const;
  enum class Form { kJoined, kApart, kCut };
  memory::FinishedStep Finished(const std::vector<memory::Decision>& decisions,
                                const memory::Fates& assignment, Form form) const;
  PassRunner Runner() const;
  void CutEvaluations();
  // The tensors that a policy would not keep; empty if the policy doesn't apply to this program.
  std::map<std::string, graph::Retention> Tagged(const checkpointing::Options& policy,
                                                 int base) const;
  bool InAllPrograms(const std::string& tensor, int base) const;
  void AddDecisions(int base, std::vector<memory::Decision>& decisions) const;

  config::RunConfig config_;
  CompileOptions options_;
  std::vector<memory::StepProgram> programs_;
  std::vector<StepEntry> entries_;  // the runs of programs_ in a step
  std::vector<models::Objective> objectives_;
  std::vector<std::shared_ptr<const graph::Program>> bases_;
};

}  // namespace plimsoll::trainer
