// A step as data: the programs that it runs, and their order (micro-steps of gradient accumulation,
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

// kClassLogits: the tensor in which an evaluation leaves the logits of this rank's samples, if the
// model classifies samples, f32[B,C], or their pixels, f32[B,…,C].
inline constexpr std::string_view kClassLogits = "class_logits";
// kMadeImages: the tensor in which an evaluation leaves the images that the model generates,
// f32[B,H,W,C], within ±1.
inline constexpr std::string_view kMadeImages = "made_images";
// kClassFeatures: with CompileOptions::features, the tensor of the inputs of a classifier's last
// layer, f32[B,D].
inline constexpr std::string_view kClassFeatures = "class_features";

// kLogProbs: the tensor of the targets' log-probabilities, f32[B,T], if the model learns
// preferences.
inline constexpr std::string_view kLogProbs = "target_log_probs";

using ProgramList = std::vector<std::shared_ptr<const graph::Program>>;

// One update of one objective.
struct StepUpdate {
  int objective = 0;   // index into CompiledStep::objectives
  int64_t number = 0;  // the update's number among those of its objective in a step
  bool operator==(const StepUpdate&) const = default;
};

// What a run of a program does. A pipeline stage runs the phases of its micro-batches separately
// (trainer/step/stage_schedule.h).
enum class StepAction : uint8_t {
  kMicroStep,  // forward and backward passes, and the update if the entry has one
  kForward,    // forward pass; the micro-batch keeps its slot until its kBackward
  kBackward,
  kUpdate,  // only the update
};

// Whether a run with this action begins micro-steps. If so, it reads their data, and they count;
// other runs of the same micro-steps do neither.
constexpr bool BeginsMicroSteps(StepAction action) {
  return action == StepAction::kMicroStep || action == StepAction::kForward;
}

// Consecutive runs of one program.
struct StepEntry {
  int program = 0;          // index into CompiledStep::programs
  int64_t times = 1;        // number of runs
  int64_t micro_steps = 1;  // number in each run, for each update
  int64_t micro_step = 0;   // the first one's number within its update
  bool ends = false;        // whether a run ends with the update of the weights
  // One update; or several complete ones, each of one micro-step, whose objectives read the same
  // data.
  std::vector<StepUpdate> updates = {{}};
  // The first micro-step's draw of the step's data; the other micro-steps read the next draws.
  int64_t draw = 0;
  StepAction action = StepAction::kMicroStep;
  // The slot of the first micro-step, which holds its inputs and the tensors kept between its
  // phases: its number in a program that has all slots (graph/micro_steps.h). Other micro-steps use
  // the next slots.
  int64_t slot = 0;
  // The tensors that a stage receives before a run, and sends after it, by their names in slot 0
  // (parallel/cut_stage.h). Empty: none.
  std::string_view receives = {}, sends = {};
};

// The programs of the entries, in the order of their runs.
std::vector<int> OrderOfRuns(std::span<const StepEntry> entries);

// One run of an entry's program.
struct StepRun {
  int program = 0;
  int64_t micro_steps = 1;
  int64_t micro_step = 0;  // the first one's number within its update
  bool ends = false;
  std::span<const StepUpdate> updates;
  int64_t draw = 0;    // draw of the first micro-step
  int64_t number = 0;  // number of the first micro-step within the step
  StepAction action = StepAction::kMicroStep;
  int64_t slot = 0;
  std::string_view receives = {}, sends = {};

  // The number of micro-steps of all updates of this run. Each update draws its own random numbers.
  int64_t all_micro_steps() const { return micro_steps * static_cast<int64_t>(updates.size()); }
};

struct StepPrograms {
  // In the order of execution; empty if nothing is trained. All micro-steps and updates of an
  // objective precede those of the next objective.
  std::vector<StepEntry> entries;
  // The number of micro-batches of data that a step draws. An objective that reads an earlier
  // objective's data draws none.
  int64_t draws = 0;

  // Other programs, as indices into CompiledStep::programs; -1: not compiled.
  //
  // `gather` gathers the weights that an update has left sharded (ZeRO), before any program below
  // reads them. The next step's first program gathers them itself.
  int gather = -1;
  int exchange = -1;                  // swaps weights and their averages (averages.h)
  std::vector<int> evaluations = {};  // evaluation programs, by objective; empty: not compiled
  // By objective: the program that sums the metrics of all stages after an evaluation; empty
  // without stages.
  std::vector<int> evaluation_sums = {};
  int prefill = -1, decode = -1;  // programs with a cache: for several new tokens, and for one
  int logits = -1;                // program without a cache, for complete texts
  int snapshot = -1;              // copies the state that snapshots save (carried_state.h)

  // The numbers of program runs and of micro-steps in a step. The phases of a micro-step count as
  // one.
  int64_t runs() const;
  int64_t micro_steps() const;
  // The step's run number `run`, 0 ≤ run < runs().
  StepRun At(int64_t run) const;
  bool Runs(int program) const;
  // Whether the program belongs to the step or is an evaluation; these read the host's data.
  bool ReadsData(int program) const;
};

// StepPrograms::draws for a step that trains these objectives.
int64_t DrawsOf(std::span<const models::Objective> objectives, int64_t accumulate);

// The names of the inputs that a step gets once for an update: they are no data, and all
// micro-steps read the same values.
std::set<std::string, std::less<>> UpdateInputs(std::span<const models::Objective> objectives);

}  // namespace plimsoll::trainer
