// Chooses the number of NCCL channels: more channels are faster but take memory on every GPU
// (memory/interconnect.h).
#pragma once

#include <span>

#include "memory/interconnect.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/step_draft.h"

namespace plimsoll::trainer {

// The bytes that the collectives of a step send.
memory::MeshTraffic TrafficOf(const StepDraft& step);

// Sets parallel.nccl_max_ctas if the file leaves it open: to the fewest channels whose collectives
// cost less than a hundredth of the step by the built-in rates, so that all ranks choose alike. If
// there are more ranks than a host has GPUs, sets 0, which means NCCL's own choice. The mesh must
// be known.
void ChooseChannels(config::RunConfig& config);

}  // namespace plimsoll::trainer
