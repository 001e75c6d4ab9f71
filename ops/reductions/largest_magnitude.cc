#include "ops/reductions/largest_magnitude.h"

#include <vector>

#include "graph/op.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::TensorType;

std::vector<TensorType> InferLargestMagnitude(const OpCall& call) {
  const DType dtype = call.input(0).dtype;
  Check(dtype == DType::kFloat32 || graph::IsLowPrecision(dtype), call, "needs f32, bf16 or f16");
  return {{DType::kFloat32, {}}};
}

const graph::OpRegistration kLargestMagnitude({
    .name = "largest_magnitude",
    .inputs = {{"x"}},
    .outputs = {{"largest"}},
    .infer = &InferLargestMagnitude,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .cheap_to_recompute = true,
});

}  // namespace

graph::Value LargestMagnitude(graph::Builder& g, graph::Value x, std::string_view name) {
  return g.Emit1("largest_magnitude", {x}, {}, name);
}

}  // namespace plimsoll::ops
