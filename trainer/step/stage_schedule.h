// The order in which the stages of a pipeline run their micro-batches, as a list for each stage,
// and a prover of such lists.
//
// 1F1B, one forward, one backward (Narayanan et al. 2021, "Efficient Large-Scale Language Model
// Training on GPU Clusters Using Megatron-LM", section 2.2): a stage runs forward passes until the
// gradients of its first micro-batch can arrive, then alternates backward and forward passes. The
// lists of 3 stages for 4 micro-batches; F and B carry the micro-batch's number, U is the update:
//
//   stage 0   F0 F1 F2       B0 F3    B1    B2    B3 U
//   stage 1      F0 F1    B0 F2    B1 F3 B2    B3 U
//   stage 2         F0 B0 F1 B1 F2 B2 F3 B3 U
//
// The last stage runs both passes of a micro-batch as one program. Stage s of S stages has at most
// S − s micro-batches in flight. Each has a slot from its forward to its backward pass.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

// One run in a stage's list.
struct StageRun {
  StepAction action = StepAction::kMicroStep;
  int64_t micro_batch = 0;
  int64_t slot = 0;
  // The tensor that the stage receives from a neighbour before the run, and the tensor that it
  // sends to a neighbour after the run (parallel/cut_stage.h). Empty means no tensor.
  std::string_view receives = {}, sends = {};

  bool operator==(const StageRun&) const = default;
};
using StageList = std::vector<StageRun>;

// The most micro-batches that a stage has in flight.
int64_t SlotsOfStage(int64_t stages, int64_t stage, int64_t micro_batches);
// The 1F1B list of a stage.
StageList OneForwardOneBackward(int64_t stages, int64_t stage, int64_t micro_batches);

// The facts proved about the lists of all stages.
struct ScheduleProof {
  int64_t transfers = 0;                // number of messages; each is received
  std::vector<int64_t> most_in_flight;  // for each stage, the most micro-batches in flight
};

// Proves that the lists together run the step of `micro_batches` micro-batches. Each stage runs the
// passes of each micro-batch once, in order, forward before backward, then the update. A slot takes
// a micro-batch only when the slot's previous micro-batch is complete. Each stage receives what its
// neighbour sends for the same micro-batch.
//
// The lists end without deadlock even without buffers, under three conditions: a message is sent
// only when its receiver waits for it, a tensor is overwritten only after it is sent, and a stage
// receives in a direction only after its previous message in that direction is sent. Throws an
// InternalError that names the first run that breaks a rule.
ScheduleProof ProveSchedule(std::span<const StageList> stages, int64_t micro_batches);

// The durations of a stage's runs, in seconds.
struct StageSeconds {
  double forward = 0;   // time of one micro-batch
  double backward = 0;  // time of one micro-batch; on the last stage the time of both passes
  double update = 0;
  double send = 0;  // time of a message to either neighbour
};

struct StepTimeline {
  double seconds = 0;        // the step's time
  std::vector<double> idle;  // for each stage, the fraction of the step in which it is idle
};

// The timeline of a step with these lists. Transfers overlap with runs. The updates of all stages
// begin together, because stages exchange gradient norms first.
StepTimeline TimelineOf(std::span<const StageList> stages, std::span<const StageSeconds> seconds);

// The fraction of a step in which a pipeline stage is idle, if all stages take the same time and
// transfers take no time: (stages − 1) / (micro-batches + stages − 1).
double BubbleOf(int64_t stages, int64_t micro_batches);

}  // namespace plimsoll::trainer
