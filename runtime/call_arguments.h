// Properties of the stand-ins for a node's arguments when its kernel is timed by itself.
#pragma once

#include <cstdint>

#include "graph/program.h"

namespace plimsoll::runtime {

// Upper bound (exclusive) for ids: all lie within the rows of every table among the node's
// arguments.
int32_t IdBound(const graph::Program& program, const graph::Node& node);

// The input whose memory output `output` takes, or -1. Results of the forward pass don't overwrite
// their inputs, which the backward pass needs; later nodes overwrite wherever they may.
int InPlaceInput(const graph::Program& program, const graph::Node& node, int output);

}  // namespace plimsoll::runtime
