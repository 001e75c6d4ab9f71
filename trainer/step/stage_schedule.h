// The order in which the stages of a pipeline run their micro-batches, as a list for each stage,
// and its prover.
//
// 1F1B, one forward, one backward (Narayanan et al. 2021, "Efficient Large-Scale Language Model
// Training on GPU Clusters Using Megatron-LM", section 2.2): a stage runs forward passes until the
// gradients of its first micro-batch can come back, then backward and forward passes in turns. Of 3
// stages and 4 micro-batches, F and B with the micro-batch's number, U the update:
//
//   stage 0   F0 F1 F2       B0 F3    B1    B2    B3 U
//   stage 1      F0 F1    B0 F2    B1 F3 B2    B3 U
//   stage 2         F0 B0 F1 B1 F2 B2 F3 B3 U
//
// The last stage runs both passes of a micro-batch as one program. A stage has as many
// micro-batches in flight as stages follow it, and itself; each has a slot from its forward to its
// backward pass.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

// A run of a stage's list.
struct StageRun {
  StepAction action = StepAction::kMicroStep;
  int64_t micro_batch = 0;
  int64_t slot = 0;
  // What it receives from a neighbour before it runs, and sends to one after it
  // (parallel/cut_stage.h). Empty: nothing.
  std::string_view receives = {}, sends = {};

  bool operator==(const StageRun&) const = default;
};
using StageList = std::vector<StageRun>;

// The most micro-batches that a stage has in flight.
int64_t SlotsOfStage(int64_t stages, int64_t stage, int64_t micro_batches);
// The list of a stage.
StageList OneForwardOneBackward(int64_t stages, int64_t stage, int64_t micro_batches);

// What is known of the lists of all stages.
struct ScheduleProof {
  int64_t transfers = 0;                // each of which meets its receiver
  std::vector<int64_t> most_in_flight;  // micro-batches, by stage
};

// Proves that together the lists make the step of that number of micro-batches: each stage runs the
// passes of each micro-batch once, in their order and the forward pass first, then the update; no
// slot takes a micro-batch before the one that it has is through; and each stage receives what its
// neighbour sends of the same micro-batch. All lists come to their end without any buffer: even if
// a message is sent only when its receiver awaits it, a tensor is written again only when it is
// sent, and a stage receives in a direction only when it has sent on in it what came before.
// InternalError that names the first run for which that isn't so.
ScheduleProof ProveSchedule(std::span<const StageList> stages, int64_t micro_batches);

// How long the runs of a stage take.
struct StageSeconds {
  double forward = 0;   // of a micro-batch
  double backward = 0;  // the same; of the last stage, both passes
  double update = 0;
  double send = 0;  // of what it sends to either neighbour
};

struct StepTimeline {
  double seconds = 0;        // of the step
  std::vector<double> idle;  // by stage: the share of the step in which it waits
};

// The step of these lists, where transfers overlap with the runs, and the updates begin
// together, since they exchange norms.
StepTimeline TimelineOf(std::span<const StageList> stages, std::span<const StageSeconds> seconds);

// The share of a step that a stage of a pipeline is idle, if all stages take the same time and
// transfers take none: (stages − 1) / (micro-batches + stages − 1).
double BubbleOf(int64_t stages, int64_t micro_batches);

}  // namespace plimsoll::trainer
