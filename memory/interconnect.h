// The seconds of collectives between the GPUs of one host, and their bytes on each GPU, by the
// number of channels (blocks that run a call, each with its own buffers). They were measured with
// NCCL on 4 NVIDIA H200s with NVLink, on registered memory (docs/measured/parallelism.md), and do
// not hold for several hosts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mesh.h"
#include "graph/op.h"

namespace plimsoll::memory {

// More ranks than this are on several hosts.
inline constexpr int64_t kGpusOfHost = 8;

// The traffic of one mesh axis in a step, by kind of collective, in bytes of unsharded tensors.
struct AxisTraffic {
  MeshAxis axis;
  double all_reduce = 0, reduce_scatter = 0, all_gather = 0;
};
using MeshTraffic = std::vector<AxisTraffic>;  // one entry per axis

// The traffic of one collective.
AxisTraffic TrafficOf(const graph::OpCall& call, const Mesh& mesh);

// The seconds that a call adds to a step, with 8 channels: the call's own seconds or, if other work
// overlaps with it, the slowdown of that work. The slowdown is half of the time of an all-reduce or
// reduce-scatter, and nine tenths of the time of an all-gather.
double CollectiveSeconds(const AxisTraffic& call);

// The largest number of channels, which NCCL chooses by default.
inline constexpr int kMostChannels = 32;

// The fewest of 4, 8, 16 and 32 channels with which collectives, if nothing overlapped with them,
// would add at most 1 % to a step compared with 32 channels.
int FewestChannels(const MeshTraffic& traffic, double step_seconds);

// The bytes on each GPU for the communicators of axes with several ranks, and for the link between
// pipeline stages (runtime/stage_link.h).
int64_t CommunicatorBytes(const Mesh& mesh, int channels);

}  // namespace plimsoll::memory
