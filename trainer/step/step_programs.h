// A step as data: which programs it runs, and in which order (micro-steps of gradient accumulation,
// objectives).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "models/model.h"

namespace plimsoll::trainer {

// The tensor in which an evaluation leaves the logits of this rank's samples, if the model
// classifies them, f32[B,C], or their pixels, f32[B,…,C].
inline constexpr std::string_view kClassLogits = "class_logits";
// The same of the images that the model makes, f32[B,H,W,C], within ±1.
inline constexpr std::string_view kMadeImages = "made_images";
// The same, with CompileOptions::features, of what a classifier's last layer makes its logits of,
// f32[B,D].
inline constexpr std::string_view kClassFeatures = "class_features";

// The same of the log-probabilities of targets, f32[B,T], if the model learns preferences.
inline constexpr std::string_view kLogProbs = "target_log_probs";

using ProgramList = std::vector<std::shared_ptr<const graph::Program>>;

// What a program works on: an update of an objective.
struct StepUpdate {
  int objective = 0;   // index into CompiledStep::objectives
  int64_t number = 0;  // of the objective's updates in a step
  bool operator==(const StepUpdate&) const = default;
};

// What a run of a program does. A stage of a pipeline runs the phases of its micro-batches apart
// (trainer/step/stage_schedule.h).
enum class StepAction : uint8_t {
  kMicroStep,  // forward and backward passes, and the update where the entry ends with one
  kForward,    // of a micro-batch, which keeps its slot until its kBackward
  kBackward,
  kUpdate,  // by itself
};

// Whether such a run begins micro-steps: it reads their data, and they count. The runs that belong
// to the same micro-steps do neither.
constexpr bool BeginsMicroSteps(StepAction action) {
  return action == StepAction::kMicroStep || action == StepAction::kForward;
}

// Consecutive runs of one program.
struct StepEntry {
  int program = 0;          // index into CompiledStep::programs
  int64_t times = 1;        // number of runs
  int64_t micro_steps = 1;  // in each run and for each update
  int64_t micro_step = 0;   // the first, counted within its update
  bool ends = false;        // a run ends with the update of the weights
  // One, or several, each whole and of one micro-step: their objectives read the same data.
  std::vector<StepUpdate> updates = {{}};
  int64_t draw = 0;  // of the step's data, for the first micro-step; the others read the next
  StepAction action = StepAction::kMicroStep;
  // Where the inputs of the first micro-step lie, and what it keeps between its phases: its number
  // in a program that has them all (graph/micro_steps.h). Those of the others follow.
  int64_t slot = 0;
  // The tensors, by their names in slot 0, that a stage receives before a run, and sends after it
  // (parallel/cut_stage.h). Empty: none.
  std::string_view receives = {}, sends = {};
};

// The programs of the entries, in the order of their runs.
std::vector<int> OrderOfRuns(std::span<const StepEntry> entries);

// One run of an entry's program.
struct StepRun {
  int program = 0;
  int64_t micro_steps = 1;
  int64_t micro_step = 0;  // the first, counted within its update
  bool ends = false;
  std::span<const StepUpdate> updates;
  int64_t draw = 0;    // of the first micro-step
  int64_t number = 0;  // of the first micro-step, among all of the step
  StepAction action = StepAction::kMicroStep;
  int64_t slot = 0;
  std::string_view receives = {}, sends = {};

  // The micro-steps of all updates of this run. Each update draws random numbers of its own.
  int64_t all_micro_steps() const { return micro_steps * static_cast<int64_t>(updates.size()); }
};

struct StepPrograms {
  // In the order of execution; empty where nothing is trained. All micro-steps and the updates of
  // an objective precede those of the next objective.
  std::vector<StepEntry> entries;
  // How many micro-batches of data a step draws. An objective that reads an earlier objective's
  // data draws none.
  int64_t draws = 0;

  // Programs besides those of the step, as indices into CompiledStep::programs; -1: not compiled.
  //
  // Gathers the weights that an update has left in parts (ZeRO), before any program below reads
  // them. The next step's first program does that itself.
  int gather = -1;
  int exchange = -1;                  // weights with their averages (averages.h)
  std::vector<int> evaluations = {};  // by objective; empty: not compiled
  // By objective: sums the metrics of all stages, after an evaluation; empty: without stages.
  std::vector<int> evaluation_sums = {};
  int prefill = -1, decode = -1;  // for several new tokens and for one; with a cache
  int logits = -1;                // for whole texts, without a cache
  int snapshot = -1;              // copies the state that snapshots save (carried_state.h)

  // The numbers of program runs and of micro-steps in a step. The phases of a micro-step count as
  // one.
  int64_t runs() const;
  int64_t micro_steps() const;
  // The step's run number `run`, 0 ≤ run < runs().
  StepRun At(int64_t run) const;
  bool Runs(int program) const;
  // Whether the program is the step's or an evaluation: these read the host's data.
  bool ReadsData(int program) const;
};

// StepPrograms::draws of a step that trains these objectives.
int64_t DrawsOf(std::span<const models::Objective> objectives, int64_t accumulate);

// The names of the inputs that a step is told once for an update: they are no data, and all
// micro-steps read the same.
std::set<std::string, std::less<>> UpdateInputs(std::span<const models::Objective> objectives);

}  // namespace plimsoll::trainer
