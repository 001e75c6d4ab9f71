// Sigmoid-weighted activations.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// y = x · σ(x), σ(x) = 1 / (1 + e^−x), of any shape. Elfwing, Uchibe, Doya, 2018; "swish".
graph::Value Silu(graph::Builder& g, graph::Value x, std::string_view name = "");

// y = silu(gate) · up, where gate_up [...,2F] holds gate in the first F columns and up in the
// others → y [...,F]. Shazeer, "GLU variants improve transformer", 2020, eq. 6.
graph::Value Swiglu(graph::Builder& g, graph::Value gate_up, std::string_view name = "");

}  // namespace plimsoll::ops
