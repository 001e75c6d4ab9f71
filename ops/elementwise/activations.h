// Activations: y has the type of x, which has any shape. If the gradient reads y, x need not be
// kept for it.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y = max(x, 0); NaN stays NaN. The gradient reads y. Nair, Hinton, "Rectified linear units improve
// restricted Boltzmann machines", 2010.
graph::Value Relu(graph::Builder& g, graph::Value x, std::string_view name = "");

// y = x where x > 0, otherwise slope · x; NaN stays NaN. The gradient reads y, which has the sign
// of x because 0 < slope < 1. Throws InternalError for other slopes. Maas, Hannun, Ng, "Rectifier
// nonlinearities improve neural network acoustic models", 2013.
graph::Value LeakyRelu(graph::Builder& g, graph::Value x, double slope, std::string_view name = "");

// y = σ(x) = 1 / (1 + e^−x), the logistic function. The gradient reads y.
graph::Value Sigmoid(graph::Builder& g, graph::Value x, std::string_view name = "");

// y = tanh(x) = 2·σ(2x) − 1. The gradient reads y.
graph::Value Tanh(graph::Builder& g, graph::Value x, std::string_view name = "");

// y = x · σ(x). Elfwing, Uchibe, Doya, 2018; "swish".
graph::Value Silu(graph::Builder& g, graph::Value x, std::string_view name = "");

// `approximate` as in PyTorch:
//   "none"  y = x · Φ(x), Φ the normal distribution function (BERT)
//   "tanh"  y = x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))   (GPT-2)
// Hendrycks, Gimpel, "Gaussian error linear units", 2016, section 2.
graph::Value Gelu(graph::Builder& g, graph::Value x, std::string_view approximate,
                  std::string_view name = "");

// y = silu(gate) · up, where gate_up [...,2F] holds gate in the first F columns and up in the
// others → y [...,F]. Shazeer, "GLU variants improve transformer", 2020, eq. 6.
graph::Value Swiglu(graph::Builder& g, graph::Value gate_up, std::string_view name = "");

// y = gelu(gate) · up, with Gelu's "tanh" form; gate_up as for Swiglu (Gemma's gated MLP).
graph::Value Geglu(graph::Builder& g, graph::Value gate_up, std::string_view name = "");

// y = cap · tanh(x / cap), which stays within ±cap. Throws InternalError unless cap > 0. Gemma Team
// 2024, "Gemma 2", section 2; Bello et al. 2016, "Neural combinatorial optimization", eq. 16.
graph::Value Softcap(graph::Builder& g, graph::Value x, double cap, std::string_view name = "");

}  // namespace plimsoll::ops
