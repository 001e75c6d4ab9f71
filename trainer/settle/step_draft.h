// A step whose programs are built but for the decision what is kept: what the budget solver turns
// into finished programs, many times over.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/solver.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

class StepDraft {
 public:
  // `config` leaves nothing open but, perhaps, checkpointing.policy.
  StepDraft(const config::RunConfig& config, const models::Model& model);

  const config::RunConfig& config() const { return config_; }
  const CompileOptions& options() const { return options_; }
  const std::vector<std::shared_ptr<const graph::Program>>& programs() const { return programs_; }
  // How often each program runs in a step; 0: it is no training program.
  const std::vector<int64_t>& times() const { return times_; }
  // Of each objective the last micro-step's program, which has the update too.
  const std::vector<std::shared_ptr<const graph::Program>>& bases() const { return bases_; }
  const std::vector<models::Objective>& objectives() const { return objectives_; }
  // Is checkpointing.policy auto?
  bool open() const;

  // What there is to decide, in bases(); nothing when the file gives a policy. UserError on a
  // pattern of checkpointing.offload that matches nothing.
  std::vector<memory::Decision> Decisions() const;
  // The named policies as assignments, each different one once.
  std::vector<std::pair<std::string, memory::Assignment>> Policies(
      const std::vector<memory::Decision>& decisions) const;
  // The finished programs.
  std::vector<memory::StepProgram> Realize(const std::vector<memory::Decision>& decisions,
                                           const memory::Assignment& assignment) const;

 private:
  // What follows once it is decided what is kept.
  void Finish(graph::Program& program, bool trains) const;
  // The tensors that a policy would treat otherwise than keep; none when it doesn't apply here.
  std::map<std::string, graph::Retention> Tagged(const checkpointing::Options& policy,
                                                 int base) const;
  void AddDecisions(int base, std::vector<memory::Decision>& decisions) const;

  config::RunConfig config_;
  CompileOptions options_;
  std::vector<std::shared_ptr<const graph::Program>> programs_;
  std::vector<int64_t> times_;
  // Of programs that keep nothing for a backward pass, which are the same whatever is decided;
  // nullptr for the others.
  std::vector<std::shared_ptr<const graph::Program>> finished_;
  std::vector<models::Objective> objectives_;
  std::vector<std::shared_ptr<const graph::Program>> bases_;
  std::vector<int> base_of_;  // by program
};

}  // namespace plimsoll::trainer
