// A step as data: which programs it runs, and in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::trainer {

// Runs of one program, one after the other.
struct StepEntry {
  int program = 0;         // index into CompiledStep::programs
  int64_t times = 1;       // one run for each of so many micro-steps
  int64_t micro_step = 0;  // the first of these
  bool updates = false;    // the program ends with the update of the weights
};

struct StepPrograms {
  std::vector<StepEntry> entries;  // in their order; empty where nothing is trained

  // Beside the step, as indices into CompiledStep::programs; -1: not compiled.
  //
  // Makes weights whole again that an update has left in parts (ZeRO): before any program below
  // reads them. The next step's first program does that itself.
  int gather = -1;
  int evaluation = -1;
  int prefill = -1, decode = -1;  // of several new tokens, of one; with a cache
  int logits = -1;                // of whole texts; without
  int snapshot = -1;              // copies what training goes on from (carried_state.h)

  // Runs of programs in a step.
  int64_t runs() const;
  // The entry of a step's run, 0 ≤ run < runs().
  const StepEntry& At(int64_t run) const;
  bool Runs(int program) const;
};

}  // namespace plimsoll::trainer
