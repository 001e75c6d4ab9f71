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

namespace plimsoll::memory {

// One program of a step, after all passes.
struct StepProgram {
  std::shared_ptr<const graph::Program> program;
  int64_t times = 1;  // runs per step; 0: it only has to fit (evaluation)
  int base = 0;       // index into Variant::bases: whose decisions shape it; unused with times 0
  // Micro-batches of which it is to keep activations at once, its forward pass being a program of
  // its own then (graph/phase_cut.h). 0: it is to stay whole.
  int64_t slots = 0;
};

struct Variant {
  std::string name;  // "4 × 8 sequences"; empty: the only one
  // A lower bound of the bytes of persistent tensors on the device, known before programs are made.
  int64_t least_device_bytes = 0;
  // Equal for variants whose decisions are about the same tensors.
  std::string activations = {};
  // Fills in the members below when they are first needed; empty: they are filled in.
  std::function<void(Variant&)> make = nullptr;

  // Training programs before recomputation, one for each objective that the step trains.
  std::vector<std::shared_ptr<const graph::Program>> bases;
  std::vector<Decision> decisions;
  std::vector<std::pair<std::string, Fates>> policies;  // by name: "none", "block"
  int64_t host_input_bytes = 0;  // MemoryPlan::host_input_bytes of each of its plans
  // Micro-steps that one program holds: what is kept stands that often.
  int64_t micro_steps = 1;
  // The same of a pipeline's stage: micro-batches whose forward pass is done and whose backward
  // pass is not. Each has bytes of its own besides what is kept.
  int64_t slots = 1, slot_bytes = 0;
  // Makes the step's programs for these decisions.
  std::function<std::vector<StepProgram>(const Fates&)> realize;
  // Makes the programs that run, if these are cut into more programs. Empty: they are not.
  std::function<std::vector<StepProgram>(const Fates&)> cut = nullptr;
  // The same with one program for each base. Empty unless several bases become one program.
  std::function<std::vector<StepProgram>(const Fates&)> apart = nullptr;

  // The number of copies of what is kept.
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
