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

// kClassLogits: the tensor in which an evaluation leaves the logits of this rank's samples:
// f32[B,C] if the model classifies samples, f32[B,…,C] if it classifies their pixels.
inline constexpr std::string_view kClassLogits = "class_logits";
// kMadeImages: the tensor in which an evaluation leaves the images that the model generates,
// f32[B,H,W,C], values between −1 and 1.
inline constexpr std::string_view kMadeImages = "made_images";
// kClassFeatures: with CompileOptions::features, the tensor with the inputs of a classifier's last
// layer, f32[B,D].
inline constexpr std::string_view kClassFeatures = "class_features";

// kLogProbs: the tensor with the targets' log-probabilities, f32[B,T], if the model learns
// preferences.
inline constexpr std::string_view kLogProbs = "target_log_probs";

using ProgramList = std::vector<std::shared_ptr<const graph::Program>>;

// One update of one objective.
struct StepUpdate {
  int objective = 0;   // index into CompiledStep::objectives
  int64_t number = 0;  // index of the update among the objective's updates in a step
  bool operator==(const StepUpdate&) const = default;
};

// What a run of a program does. A pipeline stage runs the phases of its micro-batches separately
// (trainer/step/stage_schedule.h).
enum class StepAction : uint8_t {
  kMicroStep,  // forward and backward passes, and the update if the entry has one
  kForward,    // forward pass; the micro-batch keeps its slot until its kBackward run
  kBackward,
  kUpdate,  // only the update
};

// Whether a run with this action begins micro-steps. Such a run reads their data and counts them;
// other runs of the same micro-steps do neither.
constexpr bool BeginsMicroSteps(StepAction action) {
  return action == StepAction::kMicroStep || action == StepAction::kForward;
}

// Consecutive runs of one program.
struct StepEntry {
  int program = 0;          // index into CompiledStep::programs
  int64_t times = 1;        // number of runs
  int64_t micro_steps = 1;  // number of micro-steps in each run, for each update
  int64_t micro_step = 0;   // the first micro-step's number within its update
  bool ends = false;        // whether a run ends with the update of the weights
  // One update, or several complete updates, each of one micro-step, whose objectives read the same
  // data.
  std::vector<StepUpdate> updates = {{}};
  // The first micro-step's draw; a draw is one micro-batch of the step's data. The other
  // micro-steps read the next draws.
  int64_t draw = 0;
  StepAction action = StepAction::kMicroStep;
  // The index of the first micro-step's slot, which holds the micro-step's inputs and the tensors
  // kept between its phases (graph/micro_steps.h). Other micro-steps use the next slots.
  int64_t slot = 0;
  // The tensors that a stage receives before a run and sends after it, by their names in slot 0
  // (parallel/cut_stage.h). Empty means no tensor.
  std::string_view receives = {}, sends = {};
};

// The program of each run, in the order of the runs.
std::vector<int> OrderOfRuns(std::span<const StepEntry> entries);

// One run of an entry's program.
struct StepRun {
  int program = 0;
  int64_t micro_steps = 1;
  int64_t micro_step = 0;  // the first micro-step's number within its update
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
  // Entries in the order of execution; empty if nothing is trained. All micro-steps and updates of
  // an objective precede those of the next objective.
  std::vector<StepEntry> entries;
  // The number of micro-batches of data (draws) that a step reads. An objective that reads an
  // earlier objective's data adds none.
  int64_t draws = 0;

  // Other programs, as indices into CompiledStep::programs. −1 means not compiled.
  //
  // `gather` gathers the weights that an update has left sharded (ZeRO) before any program below
  // reads them. The next step's first program gathers these weights itself.
  int gather = -1;
  int exchange = -1;  // swaps weights and their averages (averages.h)
  // For each objective, its evaluation program; empty if not compiled.
  std::vector<int> evaluations = {};
  // For each objective, the program that sums the metrics of all stages after an evaluation. Empty
  // without pipeline stages.
  std::vector<int> evaluation_sums = {};
  // Programs with a cache: `prefill` takes several new tokens, `decode` one.
  int prefill = -1, decode = -1;
  int logits = -1;    // program without a cache, for complete texts
  int snapshot = -1;  // copies the state that snapshots save (carried_state.h)

  // The numbers of program runs and of micro-steps in a step. The phases of a micro-step count as
  // one.
  int64_t runs() const;
  int64_t micro_steps() const;
  // Run number `run` of the step, 0 ≤ run < runs().
  StepRun At(int64_t run) const;
  bool Runs(int program) const;
  // Whether the program reads the host's data: programs of the step and evaluations do.
  bool ReadsData(int program) const;
};

// StepPrograms::draws for a step that trains these objectives.
int64_t DrawsOf(std::span<const models::Objective> objectives, int64_t accumulate);

// The names of the inputs that a step gets once for an update. These inputs are not data; all
// micro-steps read the same values.
std::set<std::string, std::less<>> UpdateInputs(std::span<const models::Objective> objectives);

}  // namespace plimsoll::trainer
