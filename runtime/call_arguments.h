// Properties of the stand-ins for a node's arguments when its kernel is timed by itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/program.h"

namespace plimsoll::runtime {

// Upper bound (exclusive) for ids: all lie within the rows of every table among the node's
// arguments.
int32_t IdBound(const graph::Program& program, const graph::Node& node);

// Whether the input has positions of tokens in their documents (ops/attention/attention.h). When
// a call is timed each row is one document, as plans assume: 0, 1, 2, ….
bool HasPositions(const graph::Node& node, size_t input);
void FillPositions(int32_t* positions, const graph::Shape& shape);

// The input whose memory output `output` takes, or -1. Results of the forward pass don't overwrite
// their inputs, which the backward pass needs; later nodes overwrite wherever they may.
int InPlaceInput(const graph::Program& program, const graph::Node& node, int output);

}  // namespace plimsoll::runtime
