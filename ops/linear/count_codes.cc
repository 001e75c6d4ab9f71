#include "ops/linear/count_codes.h"

#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::TensorType;

std::vector<TensorType> Infer(const OpCall& call) {
  const DType x = call.input(0).dtype;
  Check(x == DType::kFloat32 || graph::IsLowPrecision(x), call, "needs f32, bf16 or f16");
  CheckFloat32Scalar(call, 1);
  const TensorType counts{DType::kFloat32, {3}};
  CheckAbsentOr(call, 2, counts);
  const auto dtype = graph::ParseDType(call.attributes.GetWord("dtype"));
  Check(dtype && graph::IsFloat8(*dtype), call, "dtype is no 8-bit float");
  Check(call.attributes.GetReal("weight") >= 0, call, "needs a weight of 0 or more");
  return {counts};
}

const graph::OpRegistration kCountCodes({
    .name = "count_codes",
    .inputs = {{"x"}, {"scale"}, {"acc", true}},
    .outputs = {{"counts"}},
    .infer = &Infer,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{2, 0}},
});

const CudaWorkspaceRegistration kWorkspace("count_codes", [](const OpCall&) {
  return int64_t{3 * 8};  // three counters
});

}  // namespace
}  // namespace plimsoll::ops
