// A step whose programs are built except for the decision which activations are kept: the budget
// solver finishes the programs from it many times over.
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
  // `config` may leave only checkpointing.policy open. `stage`: of a pipeline.
  StepDraft(const config::RunConfig& config, const models::Model& model, int64_t stage = 0);
  // The same with other values of knobs that only change how programs are finished
  // (Knob::shapes_draft).
  StepDraft(const StepDraft& draft, const config::RunConfig& config, const models::Model& model);

  const config::RunConfig& config() const { return config_; }
  const CompileOptions& options() const { return options_; }
  // Training programs, unfinished, and the others (times: 0), which keep nothing for a backward
  // pass, and so are the same for all decisions.
  const std::vector<memory::StepProgram>& programs() const { return programs_; }
  // For each objective, the program of the last micro-step, which includes the update.
  const std::vector<std::shared_ptr<const graph::Program>>& bases() const { return bases_; }
  const std::vector<models::Objective>& objectives() const { return objectives_; }
  // True if checkpointing.policy is auto.
  bool open() const;
  // How many a finished program holds; bases() hold one.
  int64_t micro_steps() const { return options_.micro_steps_per_program; }
  // Micro-batches whose activations a stage of a pipeline keeps at once, where its forward pass is
  // a program of its own; 0: it is none, or the last stage.
  int64_t slots() const;
  // What a slot takes besides activations that are kept.
  int64_t SlotBytes() const;
  // Why micro-steps cannot go block by block; empty: they do, or it is not asked for.
  std::string WhyNotBlocksFirst() const;

  // What must be on the device all through a step: parameters, whose bytes it says alone, too, and
  // the optimizer's state.
  struct Stays {
    int64_t parameters = 0, all = 0;
  };
  Stays OnDevice() const;

  // The decisions to make in bases(); none when the file gives a policy. UserError on a pattern of
  // checkpointing.offload that matches nothing.
  std::vector<memory::Decision> Decisions() const;
  // The named policies as assignments, without duplicates.
  std::vector<std::pair<std::string, memory::Fates>> Policies(
      const std::vector<memory::Decision>& decisions) const;
  // The finished programs, with those of each objective by themselves or as they are run; of a
  // stage those of whole micro-steps, or, cut, as they are run.
  std::vector<memory::StepProgram> Apart(const std::vector<memory::Decision>& decisions,
                                         const memory::Fates& assignment) const;
  std::vector<memory::StepProgram> Realize(const std::vector<memory::Decision>& decisions,
                                           const memory::Fates& assignment) const;
  std::vector<memory::StepProgram> Cut(const std::vector<memory::Decision>& decisions,
                                       const memory::Fates& assignment) const;

 private:
  // The passes that follow once the retention of activations is decided.
  // `loss`: what it trains, or empty.
  void Finish(graph::Program& program, const std::string& loss) const;
  enum class Form { kJoined, kApart, kCut };
  std::vector<memory::StepProgram> Finished(const std::vector<memory::Decision>& decisions,
                                            const memory::Fates& assignment, Form form) const;
  PassRunner Runner() const;
  void CutEvaluations();
  // The tensors that a policy would not keep; none when the policy doesn't apply here.
  std::map<std::string, graph::Retention> Tagged(const checkpointing::Options& policy,
                                                 int base) const;
  bool InAllPrograms(const std::string& tensor, int base) const;
  void AddDecisions(int base, std::vector<memory::Decision>& decisions) const;

  config::RunConfig config_;
  CompileOptions options_;
  std::vector<memory::StepProgram> programs_;
  std::vector<StepEntry> entries_;  // that run them
  std::vector<models::Objective> objectives_;
  std::vector<std::shared_ptr<const graph::Program>> bases_;
};

}  // namespace plimsoll::trainer
