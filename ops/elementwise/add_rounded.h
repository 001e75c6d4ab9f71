// Sums that are kept in bf16 without losing small terms: gradients over micro-steps.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// acc + x, added in float32 and rounded once, stochastically, so that the mean over the draws is
// the exact sum. Rounding to nearest would lose terms below half of acc's spacing. acc bf16; x f32
// or bf16, of acc's shape; rng i32[2]. Element i is rounded by half i % 2 of word i / 2 of the
// node's random stream, so that a block of Philox serves eight elements.
graph::Value AddRounded(graph::Builder& g, graph::Value acc, graph::Value x, graph::Value rng,
                        std::string_view name = "");

}  // namespace plimsoll::ops
