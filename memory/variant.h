// A variant: one choice of how to divide a step into programs, before the fates of activations
// (memory/decision.h) are decided.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/program.h"
#include "memory/decision.h"
#include "memory/kept_tensors.h"

namespace plimsoll::memory {

// One program of a step, after all passes.
struct StepProgram {
  std::shared_ptr<const graph::Program> program;
  int64_t times = 1;  // number of times that a step runs it; 0 if the program is only planned, not
                      // timed (evaluation)
  int base = 0;       // index into Variant::bases: the base whose decisions determine this program;
                      // unused if `times` is 0
  // The number of micro-batches whose activations the program keeps at once; its forward pass is
  // then a separate program (graph/phase_cut.h). 0 if the program is not cut into phases.
  int64_t slots = 0;
};

// The programs of a step that run, after cutting.
struct FinishedStep {
  std::vector<StepProgram> programs;
  StepOrder order = {};  // empty if no kept tensor depends on it
};

struct Variant {
  std::string name;  // such as "4 × 8 sequences"; empty if it is the only variant
  // A lower bound of the bytes of persistent tensors on the device, known before programs are made.
  int64_t least_device_bytes = 0;
  // A text that is equal for variants whose decisions are about the same tensors.
  std::string activations = {};
  // Sets the members below when they are first needed. Empty if they are set already.
  std::function<void(Variant&)> make = nullptr;

  // Training programs before recomputation, one for each objective that the step trains.
  std::vector<std::shared_ptr<const graph::Program>> bases;
  std::vector<Decision> decisions;
  std::vector<std::pair<std::string, Fates>>
      policies;                  // pairs of a policy's name ("none", "block") and its fates
  int64_t host_input_bytes = 0;  // MemoryPlan::host_input_bytes of each of its plans
  // The number of micro-steps that one program holds. The bytes that a micro-step keeps count once
  // for each of them.
  int64_t micro_steps = 1;
  // For a pipeline stage: the number of micro-batches whose forward pass is done and whose backward
  // pass is not. Each such micro-batch has `slot_bytes` in addition to kept activations.
  int64_t slots = 1, slot_bytes = 0;
  // Makes the step's programs for these decisions.
  std::function<std::vector<StepProgram>(const Fates&)> build;
  // Makes the programs that run, if the programs of `build` are cut into phases. Empty if they are
  // not cut.
  std::function<FinishedStep(const Fates&)> cut = nullptr;
  // Makes a separate program for each base. Empty unless `build` joins several bases into one
  // program.
  std::function<std::vector<StepProgram>(const Fates&)> apart = nullptr;

  // The number of micro-batches whose kept bytes are alive at once.
  int64_t copies() const { return micro_steps * slots; }
  // The number of blocks that have decisions.
  int blocks() const {
    int count = 0;
    for (const Decision& decision : decisions) count = std::max(count, decision.block + 1);
    return count;
  }
  Fates KeepAll() const { return Fates(decisions.size(), graph::Retention::kSave); }
  // The bytes of offloaded activations.
  int64_t OffloadedBytes(const Fates& fates) const {
    int64_t bytes = 0;
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (fates[d] == graph::Retention::kOffload) bytes += decisions[d].bytes;
    }
    return bytes;
  }
};

}  // namespace plimsoll::memory
