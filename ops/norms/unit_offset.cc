#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {

bool HasUnitOffset(const graph::Attributes& attributes) {
  return attributes.Has("unit_offset") && attributes.GetBool("unit_offset");
}

std::string RefuseUnitOffset(const graph::OpCall& call) {
  if (!HasUnitOffset(call.attributes)) return "";
  return call.op.name + ": norms that multiply by 1 + weight do not run on a GPU yet; use the CPU";
}

}  // namespace plimsoll::ops
