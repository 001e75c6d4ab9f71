// Sends and receives between the GPUs of neighbouring stages, through NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/ranks/rank_group.h"
#include "runtime/stage_link.h"

namespace plimsoll::runtime {

// Between the current devices of the ranks of `stages`, whose ranks in the job are `ranks`. All of
// them call. Runs are enqueued on `compute`. Each direction has a stream, so that its messages keep
// their order, and a communicator with LinkChannels(channels). Both are connected here: later no
// call takes memory of the GPU.
std::unique_ptr<StageLink> MakeCudaStageLink(RankGroup& stages, std::vector<int64_t> ranks,
                                             int channels, cudaStream_t compute);

}  // namespace plimsoll::runtime
