// Elementwise arithmetic, conversion and constants. Shapes are equal: nothing broadcasts.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// a + b and a · b, elementwise, for equal floating types; sums also for i32, which wraps around.
graph::Value Add(graph::Builder& g, graph::Value a, graph::Value b, std::string_view name = "");
graph::Value Mul(graph::Builder& g, graph::Value a, graph::Value b, std::string_view name = "");

// factor · x, where factor is a constant of the program.
graph::Value Scale(graph::Builder& g, graph::Value x, double factor, std::string_view name = "");

// factor · x, where the factor is first rounded to the type in which x is stored when the op runs
// (the attribute "rounded"). Frameworks do so if they keep the factor as a tensor of that type.
graph::Value ScaleRounded(graph::Builder& g, graph::Value x, double factor,
                          std::string_view name = "");
bool HasRoundedFactor(const graph::Attributes& attributes);

// s · x, where s is a scalar tensor: f32[], or [] of x's dtype.
graph::Value ScaleBy(graph::Builder& g, graph::Value x, graph::Value s, std::string_view name = "");

// x in another dtype: floats round to nearest (f64 to a 16-bit type via f32), floats to i32
// truncate.
graph::Value Cast(graph::Builder& g, graph::Value x, graph::DType dtype,
                  std::string_view name = "");

// A tensor whose elements all have one value. (The op's name is "fill".)
graph::Value Constant(graph::Builder& g, graph::TensorType type, double value,
                      std::string_view name = "");

}  // namespace plimsoll::ops
