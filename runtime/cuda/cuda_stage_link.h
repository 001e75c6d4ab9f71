// Sends and receives between the GPUs of neighbouring stages, through NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/ranks/rank_group.h"
#include "runtime/stage_link.h"

namespace plimsoll::runtime {

// Makes a link between the current devices of the ranks of `stages`; `ranks` are their ranks in the
// job. Each of these ranks must call this. Runs are enqueued on `compute`. Each direction has a
// stream, which keeps its messages in order, and a communicator with LinkChannels(channels). Both
// are connected here, so that later calls take no GPU memory.
std::unique_ptr<StageLink> MakeCudaStageLink(RankGroup& stages, std::vector<int64_t> ranks,
                                             int channels, cudaStream_t compute);

}  // namespace plimsoll::runtime
