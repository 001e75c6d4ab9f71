// Chooses the number of NCCL channels: memory of every GPU against time (memory/interconnect.h).
#pragma once

#include <span>

#include "memory/interconnect.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/step_draft.h"

namespace plimsoll::trainer {

// The bytes that the collectives of a step send.
memory::MeshTraffic TrafficOf(const StepDraft& step);

// Sets parallel.nccl_max_ctas where the file leaves it open: to the fewest channels that cost less
// than a hundredth of the step by the built-in rates, and so the same on all ranks. For more ranks
// than a host has GPUs it is 0, which stands for NCCL's own choice. The mesh must be known.
void ChooseChannels(config::RunConfig& config);

}  // namespace plimsoll::trainer
