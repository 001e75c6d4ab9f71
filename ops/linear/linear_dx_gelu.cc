// The backward pass of y = linear(gelu(x), weight) down to x, in one op:
//
//   linear_dx_gelu   dx[...,K] = (dy[...,N] · weight[N,K]) ⊙ gelu'(x[...,K])
//
// gelu is in its tanh form (ops/elementwise/activations.h). All tensors have one float dtype. The
// op replaces a linear_dx and the gelu_backward that reads it (ops/fusions.h). On the GPU the
// product is multiplied by gelu' in float32, before rounding; on the CPU it is rounded first, like
// the two ops.
#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::Cost;
using graph::CostClass;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

std::vector<TensorType> Infer(const OpCall& call) {
  const TensorType& dy = call.input(0);
  const TensorType& weight = call.input(1);
  const TensorType& x = call.input(2);
  Check(graph::IsFloat(dy.dtype) && weight.dtype == dy.dtype && x.dtype == dy.dtype, call,
        "needs one float dtype");
  Check(dy.shape.rank() >= 1 && weight.shape.rank() == 2, call, "needs dy[...,N] and weight[N,K]");
  Check(dy.shape.dim(-1) == weight.shape.dim(0), call, "dy's last dimension is not weight's N");
  Check(x.shape == dy.shape.WithLast(weight.shape.dim(1)), call, "x is not [...,K]");
  return {x};
}

constexpr double kGeluFlops = 18;  // per element, as gelu_backward counts them

const graph::OpRegistration kLinearDxGelu({
    .name = "linear_dx_gelu",
    .inputs = {{"dy"}, {"weight"}, {"x"}},
    .outputs = {{"dx"}},
    .infer = Infer,
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          const Shape& weight = call.input(1).shape;
          const double rows = static_cast<double>(call.input(0).shape.rows());
          const double k = static_cast<double>(weight.dim(1));
          const double products = rows * k * 2.0 * static_cast<double>(weight.dim(0));
          return Cost{products + rows * k * kGeluFlops, ArgumentBytes(call), products};
        },
    .cost_class = CostClass::kProducts,
});

const CudaWorkspaceRegistration kWorkspace("linear_dx_gelu", [](const OpCall& /*call*/) {
  return kGemmWorkspaceBytes;
});

}  // namespace
}  // namespace plimsoll::ops
