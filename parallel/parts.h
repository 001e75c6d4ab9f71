// How data ranks divide a tensor among themselves: its elements, in row-major order, in as many
// equal parts as there are ranks; a part is flat. ops/collective.h gathers and scatters such parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/program.h"

namespace plimsoll::parallel {

// Is the state of a parameter of this shape divided? Matrices are whose parts begin at whole blocks
// of 8-bit state (ops/optimizer.h), and so at 512 bytes in any type. What else there is, biases and
// norms above all, is small, and stays whole on every rank.
bool IsDivided(const graph::Shape& parameter, int64_t ranks);

// [elements / ranks].
graph::Shape PartOf(const graph::Shape& whole, int64_t ranks);

// The attributes of collectives over the data axis: of all_reduce_start, and of the others, which
// are given their result's shape.
graph::Attributes OverDataRanks();
graph::Attributes OverDataRanks(const graph::Shape& result);

// The parameters that a program gathers, by name, and their whole shapes.
std::map<std::string, graph::Shape> GatheredParameters(const graph::Program& program);

}  // namespace plimsoll::parallel
