#include "ops/axis.h"

#include "base/error.h"

namespace plimsoll::ops {

std::string_view Name(Axis axis) { return axis == Axis::kData ? "data" : "tensor"; }

Axis AxisOf(const graph::Attributes& attributes) {
  const std::string& name = attributes.GetWord("axis");
  for (const Axis axis : {Axis::kData, Axis::kTensor}) {
    if (Name(axis) == name) return axis;
  }
  throw InternalError("no axis '" + name + "' of ranks");
}

bool AddsOnce(const graph::Attributes& attributes, const AxisCommunicators& communicators) {
  if (!attributes.Has("axis")) return true;
  const Communicator* const ranks = communicators.Of(AxisOf(attributes));
  return ranks == nullptr || ranks->rank() == 0;
}

}  // namespace plimsoll::ops
