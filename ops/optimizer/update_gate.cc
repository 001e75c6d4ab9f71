#include "ops/optimizer/update_gate.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;
using graph::Value;

constexpr const char* kLargestNorm = "largest_norm";

std::vector<TensorType> InferUpdateGate(const OpCall& call) {
  for (const size_t input : {0, 1, 2}) CheckFloat32Scalar(call, input);
  const TensorType counters{DType::kInt32, {2}};
  Check(call.input(3) == counters, call, "skipped must be i32[2]");
  return {{DType::kInt32, {}}, counters};
}

const OpRegistration kUpdateGate({
    .name = "update_gate",
    .inputs = {{"norm"}, {"loss"}, {"limit"}, {"skipped"}},
    .outputs = {{"apply"}, {"skipped"}},
    .infer = &InferUpdateGate,
    .gradient = {},
    .cost = {},
    .in_place = {{3, 1}},
});

}  // namespace

void SetLargestNorm(graph::Attributes& attributes, const UpdateLimits& limits) {
  if (std::isfinite(limits.norm)) attributes.Set(kLargestNorm, limits.norm);
}

float LargestNorm(const graph::Attributes& attributes) {
  return attributes.Has(kLargestNorm) ? static_cast<float>(attributes.GetReal(kLargestNorm))
                                      : std::numeric_limits<float>::infinity();
}

Value EmitUpdateGate(graph::Builder& g, Value norm, const UpdateLimits& limits, Value skipped) {
  if (!g.program().tensor(skipped).persistent) {
    throw InternalError("update_gate: '" + g.program().tensor(skipped).name +
                        "' is updated in place but not persistent");
  }
  graph::Attributes attributes;
  SetLargestNorm(attributes, limits);
  const std::vector<Value> outputs =
      g.Emit("update_gate", {norm, limits.loss, limits.limit, skipped}, std::move(attributes), "",
             {true, false});
  g.program().mutable_nodes().back().outputs = {outputs[0], skipped};
  return outputs[0];
}

}  // namespace plimsoll::ops
