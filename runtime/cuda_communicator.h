// Communicators between GPUs: NCCL, or copies within a group of one. Work goes to the caller's
// stream, and may be captured in CUDA graphs, which end before their communicator does.
#pragma once

#include <memory>
#include <string>

#include "ops/communicator.h"
#include "runtime/world.h"

namespace plimsoll::runtime {

// What a communicator takes of the GPU's memory grows with its channels: each has buffers to every
// neighbour for each algorithm. Bounds of 0 are NCCL's own choice.
struct CudaCommunicatorOptions {
  int min_channels = 0;
  int max_channels = 0;
  // Let copy engines, not multiprocessors, gather what lies in registered memory: slower alone, and
  // much better beside kernels.
  bool copy_engines = false;
  // Whether communicators of parts of the group may later share its buffers (see `parent`).
  bool shareable = true;
  std::string name = {};  // in NCCL's own logs
};

// Between the current devices of the group's ranks, each of which has a GPU of its own. All of them
// call. Types: as the header says, without f64. NVLink's multicast (NVLS) is not used unless the
// environment says NCCL_NVLS_ENABLE=1: it would be memory and bandwidth that plans don't know of.
// NCCL's buffers are of 1 MiB and less unless the environment (NCCL_BUFFSIZE, …) says otherwise.
//
// With `parent`, a communicator of the group that this one was split from, buffers are shared with
// it, and all ranks of the parent call; work of the two is then done one after the other, and the
// parent ends last.
//
// UserError when two ranks of a host have the same GPU.
std::unique_ptr<ops::Communicator> MakeCudaCommunicator(RankGroup& group,
                                                        const CudaCommunicatorOptions& options,
                                                        ops::Communicator* parent = nullptr);

// NCCL's version at run time: "2.28.9".
std::string NcclVersion();

}  // namespace plimsoll::runtime
