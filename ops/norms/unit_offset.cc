#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {

bool HasUnitOffset(const graph::Attributes& attributes) {
  return attributes.Has("unit_offset") && attributes.GetBool("unit_offset");
}

}  // namespace plimsoll::ops
