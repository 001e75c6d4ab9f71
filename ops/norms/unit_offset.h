// The attribute "unit_offset" of RMS norms and of their backward ops, present only if it is true: y
// = x · rstd · (1 + weight), so that a weight of 0 changes nothing (Gemma). The backward pass uses
// 1 + weight instead of the weight; the formula of the weight's gradient stays the same. 1 + weight
// is computed in the compute type.
#pragma once

#include <string>

#include "graph/op.h"

namespace plimsoll::ops {

bool HasUnitOffset(const graph::Attributes& attributes);

}  // namespace plimsoll::ops
