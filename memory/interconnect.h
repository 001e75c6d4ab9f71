// What collectives between the GPUs of one host cost, by the number of channels (blocks that a call
// runs on, each with its own buffers): of each GPU's memory, and time. As measured with NCCL on 4
// NVIDIA H200s, NVLink, of memory that is registered (docs/parallelism.md); not of several hosts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mesh.h"

namespace plimsoll::memory {

// What the ranks of an axis send in a step: bytes of whole tensors, by the kind of call.
struct AxisTraffic {
  MeshAxis axis;
  double all_reduce = 0, reduce_scatter = 0, all_gather = 0;
};
using MeshTraffic = std::vector<AxisTraffic>;  // of each axis

// NCCL's own choice, and the most.
inline constexpr int kMostChannels = 32;

// All calls one after the other. `channels`: 1 to kMostChannels.
double CollectiveSeconds(const MeshTraffic& traffic, int channels);

// The fewest of 4, 8, 16 and 32 with which collectives take no more than a hundredth of the step
// longer than with 32, were nothing hidden.
int FewestChannels(const MeshTraffic& traffic, double step_seconds);

// Of each GPU, for communicators of the axes that have several ranks.
int64_t CommunicatorBytes(const Mesh& mesh, int channels);

}  // namespace plimsoll::memory
