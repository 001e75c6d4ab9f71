// Helpers for the definitions of ops (ops/KIND/NAME.cc): common inference and cost rules, shapes as
// attributes.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace plimsoll::ops {

// Infers one output with the type of input 0, which must be floating.
std::vector<graph::TensorType> LikeFloatInput0(const graph::OpCall& call);

// Infers the same for two or more inputs, all required, which must agree in type.
std::vector<graph::TensorType> LikeEqualFloatInputs(const graph::OpCall& call);

// Throws unless input i is absent or of this type.
void CheckAbsentOr(const graph::OpCall& call, size_t input, const graph::TensorType& type);

// Throws unless input i is an f32 scalar (a learning rate, a clip factor, a scale).
void CheckFloat32Scalar(const graph::OpCall& call, size_t input);

// Throws unless input i is i32[2] (seed, micro-step).
void CheckRng(const graph::OpCall& call, size_t input);

// Whether the attribute "low_gradient" is set (graph/op.h). If so, throws unless the operand is
// bf16 and the call has rng and key.
bool MakesLowGradient(const graph::OpCall& call, size_t rng, size_t operand = 0);

// The types of all outputs: `types` and, with the attribute "largest" (graph/op.h), those of the
// largest magnitudes.
std::vector<graph::TensorType> WithLargest(const graph::OpCall& call,
                                           std::vector<graph::TensorType> types);

// The bytes of all arguments, each read or written once.
double ArgumentBytes(const graph::OpCall& call);

// A cost rule: `flops` FLOPs for each element of input 0, and every argument read or written once.
std::function<graph::Cost(const graph::OpCall&)> FlopsPerElement(double flops);

// Shapes as attributes: "rank", and "d0" … "d5" for the dimensions.
void SetShape(graph::Attributes& attributes, const graph::Shape& shape);
graph::Shape GetShape(const graph::Attributes& attributes);

// The attributes with these names: those that a backward op needs from its forward op.
graph::Attributes Select(const graph::Attributes& attributes,
                         std::initializer_list<std::string_view> names);

}  // namespace plimsoll::ops
