// Gaussian error linear unit. Hendrycks, Gimpel, "Gaussian error linear units", 2016, section 2.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// x of any shape → y of the same type. `approximate` as in PyTorch:
//   "none"  y = x · Φ(x), Φ the normal distribution function (BERT)
//   "tanh"  y = x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))   (GPT-2)
graph::Value Gelu(graph::Builder& g, graph::Value x, std::string_view approximate,
                  std::string_view name = "");

}  // namespace plimsoll::ops
