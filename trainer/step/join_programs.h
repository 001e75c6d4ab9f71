// Joins programs of single micro-steps into larger ones: over several micro-steps, and over the
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
  // The references must outlive this object. Drops programs that no entry names.
  ProgramJoiner(const CompileOptions& options, const std::vector<models::Objective>& objectives,
                ProgramList& programs, std::vector<StepEntry>& entries, PassRunner run)
      : options_(options),
        objectives_(objectives),
        programs_(programs),
        entries_(entries),
        run_(std::move(run)) {}

  // Joins options.micro_steps_per_program micro-steps into one program. Throws an InternalError if
  // that number does not divide the micro-steps of an update.
  void JoinMicroSteps();
  // Joins an objective's first update to the program of the update before it, if both updates read
  // the same data.
  void JoinUpdates();

 private:
  // Whether the entry's update joins the program of `before`.
  bool Joins(const StepEntry& before, const StepEntry& entry) const;
  std::string NameOf(const StepEntry& entry) const;  // the name of the entry's joined program
  // Joins the programs with these indices into one and returns its index. Tensors for which `own`
  // returns true stay separate for each program.
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
