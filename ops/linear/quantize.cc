#include "ops/linear/quantize.h"

#include "base/error.h"
#include "base/float8.h"
#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/quantize_workspace.h"

namespace plimsoll::ops {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

float LargestCode(DType dtype) {
  if (dtype == DType::kFloat8E4M3) return Float8E4M3::kLargest;
  if (dtype == DType::kFloat8E5M2) return Float8E5M2::kLargest;
  throw InternalError("no 8-bit float: " + std::string(graph::Name(dtype)));
}

namespace {

std::vector<TensorType> InferQuantize(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(x.dtype == DType::kFloat32 || graph::IsLowPrecision(x.dtype), call,
        "needs f32, bf16 or f16");
  Check(x.shape.rank() >= 1, call, "needs x[...,K]");
  CheckFloat32Scalar(call, 1);
  const TensorType sums{DType::kFloat32, {x.shape.dim(-1)}};
  CheckAbsentOr(call, 2, sums);
  if (call.has_input(3)) {
    const TensorType& expected = call.input(3);
    const int64_t index = call.attributes.GetInt("index");
    Check(expected.dtype == DType::kFloat32 && expected.shape.rank() == 1, call,
          "needs expected f32[N]");
    Check(index >= 0 && index < expected.shape.dim(0), call, "index is none of expected's");
  }
  const auto dtype = graph::ParseDType(call.attributes.GetWord("dtype"));
  Check(dtype && graph::IsFloat8(*dtype), call, "dtype is no 8-bit float");
  return {{*dtype, {x.shape.dim(-1), TransposedRow(x.shape.rows())}},
          {*dtype, x.shape},
          {DType::kFloat32, {}},
          sums};
}

const graph::OpRegistration kQuantize({
    .name = "quantize",
    .inputs = {{"x"}, {"largest"}, {"acc_sums", true}, {"expected", true}},
    .outputs = {{"transposed", true}, {"codes", true}, {"scale", true}, {"sums", true}},
    .infer = &InferQuantize,
    .gradient = {},
    .cost = FlopsPerElement(2),
    .in_place = {{2, 3}},
    .cheap_to_recompute = true,
});

const CudaWorkspaceRegistration kWorkspace("quantize", &QuantizeWorkspace);

}  // namespace
}  // namespace plimsoll::ops
