// Programs of single micro-steps become those that a step runs: of several micro-steps, and of the
// updates of several objectives.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "models/model.h"
#include "trainer/step/compile_options.h"
#include "trainer/step/passes.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

class ProgramJoiner {
 public:
  // The references must outlive this object. The entries name the programs; programs that no entry
  // names are dropped.
  ProgramJoiner(const CompileOptions& options, const std::vector<models::Objective>& objectives,
                ProgramList& programs, std::vector<StepEntry>& entries, PassRunner run)
      : options_(options),
        objectives_(objectives),
        programs_(programs),
        entries_(entries),
        run_(std::move(run)) {}

  // As many micro-steps as options.micro_steps_per_program says. InternalError where they do not
  // divide an update.
  void JoinMicroSteps();
  // An objective's first update becomes part of the program of the last update before it, where
  // both read the same data.
  void JoinUpdates();

 private:
  // Whether the update of the entry becomes part of the program before it.
  bool Joins(const StepEntry& before, const StepEntry& entry) const;
  std::string NameOf(const StepEntry& entry) const;  // names the program of the entry's micro-steps
  // Joins the programs with these indices into one and returns its index. Each of the programs has
  // tensors of its own: those for which `own` is true.
  int Join(const std::vector<int>& programs, const std::string& name, Slice slice,
           std::function<bool(const graph::Tensor&)> own);
  void DropUnused();

  const CompileOptions& options_;
  const std::vector<models::Objective>& objectives_;
  ProgramList& programs_;
  std::vector<StepEntry>& entries_;
  const PassRunner run_;
};

}  // namespace plimsoll::trainer
