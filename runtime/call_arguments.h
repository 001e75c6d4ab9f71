// What stands for a node's arguments when its kernel is timed by itself.
#pragma once

#include <cstdint>

#include "graph/program.h"

namespace plimsoll::runtime {

// Ids must lie below this: within the rows of every table among the node's arguments.
int32_t IdBound(const graph::Program& program, const graph::Node& node);

// The input whose memory output `output` takes, or -1. Forward results stay beside their inputs,
// which wait for the backward pass; everything later overwrites what it may.
int InPlaceInput(const graph::Program& program, const graph::Node& node, int output);

}  // namespace plimsoll::runtime
