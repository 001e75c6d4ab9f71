// Communicators between GPUs use NCCL; in a group of one rank they only copy. Work is enqueued on
// the caller's stream and may be captured in CUDA graphs. The graphs must be destroyed before their
// communicator.
#pragma once

#include <memory>
#include <string>

#include "ops/collectives/communicator.h"
#include "runtime/ranks/rank_group.h"

namespace plimsoll::runtime {

// A communicator's GPU memory grows with its channels: each channel has buffers for every neighbour
// and algorithm. A bound of 0 means NCCL's own choice.
struct CudaCommunicatorOptions {
  int min_channels = 0;
  int max_channels = 0;
  // Whether copy engines instead of multiprocessors gather registered memory. Copy engines are
  // slower when nothing else runs, and much faster at the same time as kernels.
  bool copy_engines = false;
  // Whether communicators of subgroups may later share this one's buffers (see `parent`).
  bool shareable = true;
  std::string name = {};  // name in NCCL's own logs
};

// Makes a communicator between the current devices of the group's ranks; each rank has its own GPU.
// All ranks call. It takes the types of ops::Communicator except f64. NVLink's multicast (NVLS) is
// not used unless the environment says NCCL_NVLS_ENABLE=1: plans don't know its memory and
// bandwidth. NCCL's buffers are 1 MiB or less unless the environment (NCCL_BUFFSIZE, …) says
// otherwise.
//
// With `parent`, a communicator of the group that this group was split from, both communicators
// share buffers, and all ranks of the parent call. Work of the two is then serialised, and the
// parent must be destroyed last.
//
// Throws a UserError if two ranks of a host have the same GPU.
std::unique_ptr<ops::Communicator> MakeCudaCommunicator(RankGroup& group,
                                                        const CudaCommunicatorOptions& options,
                                                        ops::Communicator* parent = nullptr);

// The version of the loaded NCCL: "2.28.9".
std::string NcclVersion();

}  // namespace plimsoll::runtime
