// A step as data: which programs it runs, and in which order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace plimsoll::trainer {

// Runs of one program, one after the other.
struct StepEntry {
  int program = 0;         // index into CompiledStep::programs
  int64_t times = 1;       // one run for each of so many micro-steps
  int64_t micro_step = 0;  // the first of these, of the update that they belong to
  bool updates = false;    // the program ends with the update of the weights
  int objective = 0;       // index into CompiledStep::objectives
  int64_t draw = 0;        // of the step's data, that the first run reads; the next reads the next
};

// One of these runs.
struct StepRun {
  int program = 0;
  int64_t micro_step = 0;
  bool updates = false;
  int objective = 0;
  int64_t draw = 0;
};

struct StepPrograms {
  // In their order; empty where nothing is trained. All micro-steps and the update of an objective
  // precede the next one's.
  std::vector<StepEntry> entries;
  // How many micro-batches of data a step takes. An objective that reads what an earlier one has
  // read takes none.
  int64_t draws = 0;

  // Beside the step, as indices into CompiledStep::programs; -1: not compiled.
  //
  // Makes weights whole again that an update has left in parts (ZeRO): before any program below
  // reads them. The next step's first program does that itself.
  int gather = -1;
  std::vector<int> evaluations = {};  // by objective; empty: not compiled
  int prefill = -1, decode = -1;      // of several new tokens, of one; with a cache
  int logits = -1;                    // of whole texts; without
  int snapshot = -1;                  // copies what training goes on from (carried_state.h)

  // Runs of programs in a step.
  int64_t runs() const;
  // A step's run, 0 ≤ run < runs().
  StepRun At(int64_t run) const;
  bool Runs(int program) const;
};

// StepPrograms::draws of a step that trains these.
int64_t DrawsOf(std::span<const models::Objective> objectives, int64_t accumulate);

}  // namespace plimsoll::trainer
