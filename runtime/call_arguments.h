// Values for the stand-in arguments with which a node's kernel is timed on its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/program.h"

namespace plimsoll::runtime {

// Exclusive upper bound for ids: every id below it is a valid row of every table among the node's
// arguments.
int32_t IdBound(const graph::Program& program, const graph::Node& node);

// Whether the input holds the positions of tokens in their documents (ops/attention/attention.h).
// When a call is timed, each row is one document, as plans assume: 0, 1, 2, ….
bool HasPositions(const graph::Node& node, size_t input);
void FillPositions(int32_t* positions, const graph::Shape& shape);

// The input whose memory output `output` reuses, or -1. Nodes of the forward pass don't overwrite
// their inputs, which the backward pass needs; later nodes overwrite inputs wherever they may.
int InPlaceInput(const graph::Program& program, const graph::Node& node, int output);

}  // namespace plimsoll::runtime
