// The dimensions of the mesh of ranks, as collectives and kernels name them.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/attributes.h"
#include "ops/communicator.h"

namespace plimsoll::ops {

enum class Axis : uint8_t { kData, kTensor };

std::string_view Name(Axis axis);  // "data", "tensor": the attribute "axis"
Axis AxisOf(const graph::Attributes& attributes);

// This rank's communicators, one for each axis; nullptr: the rank is alone there.
struct AxisCommunicators {
  Communicator* data = nullptr;
  Communicator* tensor = nullptr;

  Communicator* Of(Axis axis) const { return axis == Axis::kData ? data : tensor; }
};

// Does this rank add what is added once among the ranks of the node's axis, its first one's? Every
// rank does where the node has no axis.
bool AddsOnce(const graph::Attributes& attributes, const AxisCommunicators& communicators);

}  // namespace plimsoll::ops
