// One way to divide a step into programs, before the fates of activations are decided.
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
  int64_t times = 1;  // runs per step; 0: it is only planned, not timed (evaluation)
  int base = 0;       // index into Variant::bases: the base whose decisions shape it; unused if
                      // times is 0
  // The number of micro-batches whose activations the program keeps at once; its forward pass is
  // then a separate program (graph/phase_cut.h). 0: the program is not cut.
  int64_t slots = 0;
};

// The programs of a step as they run.
struct FinishedStep {
  std::vector<StepProgram> programs;
  StepOrder order = {};  // empty if no kept tensor depends on it
};

struct Variant {
  std::string name;  // "4 × 8 sequences"; empty: the only variant
  // A lower bound of the bytes of persistent tensors on the device, known before programs are made.
  int64_t least_device_bytes = 0;
  // Equal for variants whose decisions are about the same tensors.
  std::string activations = {};
  // Sets the members below when they are first needed; empty: they are set already.
  std::function<void(Variant&)> make = nullptr;

  // Training programs before recomputation, one for each objective that the step trains.
  std::vector<std::shared_ptr<const graph::Program>> bases;
  std::vector<Decision> decisions;
  std::vector<std::pair<std::string, Fates>> policies;  // policies with their names: "none",
                                                        // "block"
  int64_t host_input_bytes = 0;  // MemoryPlan::host_input_bytes of each of its plans
  // The number of micro-steps that one program holds: kept bytes count that number of times.
  int64_t micro_steps = 1;
  // For a pipeline stage: the number of micro-batches whose forward pass is done and whose backward
  // pass is not. Each of them has `slot_bytes` in addition to kept activations.
  int64_t slots = 1, slot_bytes = 0;
  // Makes the step's programs for these decisions.
  std::function<std::vector<StepProgram>(const Fates&)> build;
  // Makes the programs that run, if `build`'s programs are cut into more programs. Empty: they are
  // not cut.
  std::function<FinishedStep(const Fates&)> cut = nullptr;
  // Makes one program for each base. Empty unless several bases become one program.
  std::function<std::vector<StepProgram>(const Fates&)> apart = nullptr;

  // The number of times that kept bytes count.
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
