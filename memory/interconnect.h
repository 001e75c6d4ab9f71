// What collectives between the GPUs of one host cost, in time and in memory of each GPU, by the
// number of channels (the blocks that run a call, each with its own buffers). Measured with NCCL on
// 4 NVIDIA H200s with NVLink, on registered memory (docs/parallelism.md); not for several hosts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mesh.h"
#include "graph/op.h"

namespace plimsoll::memory {

// More ranks than that are of several hosts.
inline constexpr int64_t kGpusOfHost = 8;

// What the ranks of an axis send in a step: bytes of whole tensors, by the kind of call.
struct AxisTraffic {
  MeshAxis axis;
  double all_reduce = 0, reduce_scatter = 0, all_gather = 0;
};
using MeshTraffic = std::vector<AxisTraffic>;  // of each axis

// What a call of a collective sends.
AxisTraffic TrafficOf(const graph::OpCall& call, const Mesh& mesh);

// How much longer a step takes with the call, with 8 channels: as long as the call by itself. Where
// other work hides it, that work becomes slower: by half of a sum, by nine tenths of a gather.
double CollectiveSeconds(const AxisTraffic& call);

// The most channels, and NCCL's own choice.
inline constexpr int kMostChannels = 32;

// The fewest of 4, 8, 16 and 32 channels with which collectives, if nothing hid them, would take at
// most a hundredth of the step longer than with 32.
int FewestChannels(const MeshTraffic& traffic, double step_seconds);

// The bytes on each GPU for communicators of the axes that have several ranks, and for the link of
// an axis of stages (runtime/stage_link.h).
int64_t CommunicatorBytes(const Mesh& mesh, int channels);

}  // namespace plimsoll::memory
