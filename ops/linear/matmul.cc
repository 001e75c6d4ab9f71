#include "ops/linear/matmul.h"

#include <algorithm>
#include <vector>

#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::Cost;
using graph::CostClass;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Value;

Value Matmul(graph::Builder& g, Value a, Value b, bool trans_a, bool trans_b,
             std::string_view name) {
  return g.Emit1("matmul", {a, b}, Attributes{{"trans_a", trans_a}, {"trans_b", trans_b}}, name);
}

namespace {

std::vector<TensorType> Infer(const OpCall& call) {
  const TensorType& a = call.input(0);
  const TensorType& b = call.input(1);
  Check(graph::IsFloat(a.dtype) && a.dtype == b.dtype, call, "needs one float dtype");
  Check(a.shape.rank() >= 2 && a.shape.rank() == b.shape.rank(), call,
        "needs two tensors of one rank, 2 or more");
  Check(a.shape.DropLast().DropLast() == b.shape.DropLast().DropLast(), call,
        "leading dimensions differ");
  const bool trans_a = call.attributes.GetBool("trans_a");
  const bool trans_b = call.attributes.GetBool("trans_b");
  Check(a.shape.dim(trans_a ? -2 : -1) == b.shape.dim(trans_b ? -1 : -2), call,
        "inner dimensions differ");
  std::vector<int64_t> dims(a.shape.dims().begin(), a.shape.dims().end());
  dims[dims.size() - 2] = a.shape.dim(trans_a ? -1 : -2);
  dims[dims.size() - 1] = b.shape.dim(trans_b ? -2 : -1);
  return {{a.dtype, Shape(dims)}};
}

// For C = A·B, where A and B are the operands as multiplied: dA = dC·Bᵀ and dB = Aᵀ·dC. The
// gradient is transposed if the operand is stored transposed.
void Gradient(graph::GradientContext& context) {
  graph::Builder& g = context.builder();
  const Value dc = context.output_gradient(0);
  const Value a = context.input(0);
  const Value b = context.input(1);
  const bool trans_a = context.attributes().GetBool("trans_a");
  const bool trans_b = context.attributes().GetBool("trans_b");
  const auto product = [&](Value left, Value right, bool trans_left, bool trans_right) {
    Attributes attributes = Select(context.attributes(), {"tf32"});
    attributes.Set("trans_a", trans_left);
    attributes.Set("trans_b", trans_right);
    return g.Emit1("matmul", {left, right}, std::move(attributes));
  };
  if (context.wants(0)) {
    context.SetGradient(0,
                        trans_a ? product(b, dc, trans_b, true) : product(dc, b, false, !trans_b));
  }
  if (context.wants(1)) {
    context.SetGradient(1,
                        trans_b ? product(dc, a, true, trans_a) : product(a, dc, !trans_a, false));
  }
}

const graph::OpRegistration kMatmul({
    .name = "matmul",
    .inputs = {{"a"}, {"b"}},
    .outputs = {{"c"}},
    .infer = Infer,
    .gradient = Gradient,
    .cost =
        [](const OpCall& call) {
          const TensorType& a = call.input(0);
          const TensorType& b = call.input(1);
          const TensorType c = Infer(call)[0];
          const int64_t k = a.shape.dim(call.attributes.GetBool("trans_a") ? -2 : -1);
          const double flops = 2.0 * c.shape.elements() * k;
          return Cost{flops, static_cast<double>(a.bytes() + b.bytes() + c.bytes()), flops};
        },
    .precision = {Precision::kLow, "low operands, products summed in float32", /*tf32=*/true},
    .cost_class = CostClass::kProducts,
});

const CudaWorkspaceRegistration kWorkspace("matmul", [](const OpCall& /*call*/) {
  return kGemmWorkspaceBytes;
});

}  // namespace
}  // namespace plimsoll::ops
