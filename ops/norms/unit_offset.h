// The attribute "unit_offset" of RMS norms and of their backward ops, which is there only where it
// is true: y = x · rstd · (1 + weight), so that a weight of 0 changes nothing (Gemma). In the
// backward pass 1 + weight takes the place of the weight, and the weight's own gradient stays as it
// is. The sum is taken in the compute type.
#pragma once

#include <string>

#include "graph/op.h"

namespace plimsoll::ops {

bool HasUnitOffset(const graph::Attributes& attributes);

}  // namespace plimsoll::ops
