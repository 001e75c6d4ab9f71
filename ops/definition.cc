#include "ops/definition.h"

#include <array>
#include <string>

#include "base/error.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

namespace {

constexpr std::array<std::string_view, Shape::kMaxRank> kDimensions = {"d0", "d1", "d2",
                                                                       "d3", "d4", "d5"};

}  // namespace

std::vector<TensorType> LikeFloatInput0(const OpCall& call) {
  Check(graph::IsFloat(call.input(0).dtype), call, "input must be floating");
  return {call.input(0)};
}

std::vector<TensorType> LikeEqualFloatInputs(const OpCall& call) {
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    Check(call.input(i) == call.input(0), call, "inputs must agree in type");
  }
  return LikeFloatInput0(call);
}

void CheckAbsentOr(const OpCall& call, size_t input, const TensorType& type) {
  Check(!call.has_input(input) || call.input(input) == type, call,
        "'" + call.op.inputs[input].name + "' must be " + type.ToString());
}

void CheckFloat32Scalar(const OpCall& call, size_t input) {
  Check(call.input(input) == TensorType{graph::DType::kFloat32, {}}, call,
        "'" + call.op.inputs[input].name + "' must be f32[]");
}

void CheckRng(const OpCall& call, size_t input) {
  Check(call.input(input) == TensorType{graph::DType::kInt32, {2}}, call, "'rng' must be i32[2]");
}

bool MakesLowGradient(const OpCall& call, size_t rng, size_t operand) {
  if (!call.attributes.Has("low_gradient") || !call.attributes.GetBool("low_gradient"))
    return false;
  Check(call.input(operand).dtype == graph::DType::kBFloat16, call,
        "low gradients need bf16 operands");
  CheckRng(call, rng);
  call.attributes.GetInt("key");
  return true;
}

std::vector<TensorType> WithLargest(const OpCall& call, std::vector<TensorType> types) {
  if (!call.attributes.Has("largest")) return types;
  types.resize(types.size() + call.op.finds_largest.size(), {graph::DType::kFloat32, {}});
  return types;
}

double ArgumentBytes(const OpCall& call) {
  double bytes = 0;
  for (const TensorType* type : call.inputs) bytes += type != nullptr ? type->bytes() : 0;
  for (const TensorType* type : call.outputs) bytes += type != nullptr ? type->bytes() : 0;
  return bytes;
}

std::function<graph::Cost(const OpCall&)> FlopsPerElement(double flops) {
  return [flops](const OpCall& call) {
    return graph::Cost{flops * static_cast<double>(call.input(0).shape.elements()),
                       ArgumentBytes(call)};
  };
}

void SetShape(Attributes& attributes, const Shape& shape) {
  attributes.Set("rank", static_cast<int64_t>(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i) attributes.Set(kDimensions[i], shape.dim(i));
}

Shape GetShape(const Attributes& attributes) {
  std::array<int64_t, Shape::kMaxRank> dims;
  const int64_t rank = attributes.GetInt("rank");
  if (rank < 0 || rank > Shape::kMaxRank) throw InternalError("attribute 'rank' outside 0 … 6");
  for (int64_t i = 0; i < rank; ++i) dims[i] = attributes.GetInt(kDimensions[i]);
  return Shape(std::span<const int64_t>(dims).first(rank));
}

Attributes Select(const Attributes& attributes, std::initializer_list<std::string_view> names) {
  Attributes selected;
  for (const Attributes::Entry& entry : attributes.entries()) {
    for (std::string_view name : names) {
      if (entry.first == name) selected.Set(entry.first, entry.second);
    }
  }
  return selected;
}

}  // namespace plimsoll::ops
