// Shards of ZeRO: how data ranks divide a tensor. The tensor's elements, in row-major order, are
// cut into one equal, flat part for each rank. ops/collectives/collective.h gathers and scatters
// such parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/program.h"

namespace plimsoll::parallel {

// Whether the state of a parameter of this shape is sharded. A matrix is sharded if its parts begin
// at complete blocks of 8-bit state (ops/optimizer/optimizer.h), and so at multiples of 512 bytes
// in any type. Other parameters, above all biases and norms, are small and stay unsharded.
bool IsDivided(const graph::Shape& parameter, int64_t ranks);

// Whether the tensor is a parameter that the ranks shard, and is not a view.
bool IsDividedWeight(const graph::Tensor& tensor, int64_t ranks);

// The shape of a part: [elements / ranks].
graph::Shape PartOf(const graph::Shape& whole, int64_t ranks);

// The parameters that a program gathers, by name, with their unsharded shapes. Parameters that are
// gathered from a copy, or as codes (parallel/gather_codes.h), are included.
std::map<std::string, graph::Shape> GatheredParameters(const graph::Program& program);

}  // namespace plimsoll::parallel
