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
  // The last micro-step's, which has the update too.
  const std::shared_ptr<const graph::Program>& base() const { return base_; }
  // Is checkpointing.policy auto?
  bool open() const;

  // What there is to decide, in base(); nothing when the file gives a policy. UserError on a
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
  std::map<std::string, graph::Retention> Tagged(const checkpointing::Options& policy) const;

  config::RunConfig config_;
  CompileOptions options_;
  std::vector<std::shared_ptr<const graph::Program>> programs_;
  std::vector<int64_t> times_;
  // Of programs that keep nothing for a backward pass, which are the same whatever is decided;
  // nullptr for the others.
  std::vector<std::shared_ptr<const graph::Program>> finished_;
  std::shared_ptr<const graph::Program> base_;
};

}  // namespace plimsoll::trainer
