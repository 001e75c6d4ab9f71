// The op `dequantize` (ops/linear/quantize.h).
#include "graph/op.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::OpCall;
using graph::TensorType;

std::vector<TensorType> Infer(const OpCall& call) {
  Check(graph::IsFloat8(call.input(0).dtype), call, "needs codes of an 8-bit float");
  CheckFloat32Scalar(call, 1);
  const auto dtype = graph::ParseDType(call.attributes.GetWord("dtype"));
  Check(dtype && graph::IsLowPrecision(*dtype), call, "dtype is neither bf16 nor f16");
  return {{*dtype, call.input(0).shape}};
}

const graph::OpRegistration kDequantize({
    .name = "dequantize",
    .inputs = {{"codes"}, {"scale"}},
    .outputs = {{"x"}},
    .infer = &Infer,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .cheap_to_recompute = true,
    .recompute_preset = "activations",
});

}  // namespace
}  // namespace plimsoll::ops
