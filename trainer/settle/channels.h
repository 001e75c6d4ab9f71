// How many channels NCCL gets: memory of every GPU against time (memory/interconnect.h).
#pragma once

#include <span>

#include "memory/interconnect.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/step_draft.h"

namespace plimsoll::trainer {

// What the collectives of a step send.
memory::MeshTraffic TrafficOf(const StepDraft& step);

// Leaves parallel.nccl_max_ctas open no more: where the file doesn't say, the fewest that cost
// under a hundredth of the step by the built-in rates, and so the same on all ranks; NCCL's own
// choice, which the key says by 0, for more ranks than a host has GPUs. The mesh is known.
void ChooseChannels(config::RunConfig& config);

}  // namespace plimsoll::trainer
