// Shards of ZeRO: how data ranks divide a tensor. Its elements, in row-major order, are cut into
// one equal part per rank; a part is flat. ops/collectives/collective.h gathers and scatters such
// parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/program.h"

namespace plimsoll::parallel {

// Whether the state of a parameter of this shape is divided. Matrices are, if their parts begin at
// whole blocks of 8-bit state (ops/optimizer/optimizer.h), and so at multiples of 512 bytes in any
// type. Other parameters, above all biases and norms, are small and stay whole on every rank.
bool IsDivided(const graph::Shape& parameter, int64_t ranks);

// Whether the tensor is a parameter that the ranks divide, and no view.
bool IsDividedWeight(const graph::Tensor& tensor, int64_t ranks);

// [elements / ranks].
graph::Shape PartOf(const graph::Shape& whole, int64_t ranks);

// The parameters that a program gathers, by name, with their whole shapes; whether from where they
// live, or from a copy, or as codes (parallel/gather_codes.h).
std::map<std::string, graph::Shape> GatheredParameters(const graph::Program& program);

}  // namespace plimsoll::parallel
