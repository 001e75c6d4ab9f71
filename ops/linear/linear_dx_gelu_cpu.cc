// Runs the kernels of linear_dx and gelu_backward one after the other, and so has the same bits.
#include <array>

#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

const graph::Attributes kTanh = {{"approximate", std::string("tanh")}};

const CpuKernel& Kernel(std::string_view op) {
  const CpuKernel* const kernel = FindCpuKernel(op);
  if (kernel == nullptr) throw InternalError("no CPU kernel for " + std::string(op));
  return *kernel;
}

void LinearDxGelu(const CpuContext& ctx) {
  Kernel("linear_dx")
      .run({{ctx.op, ctx.inputs.first(2), ctx.outputs, ctx.attributes, ctx.workspace,
             ctx.workspace_bytes},
            ctx.pool});
  const std::array<TensorRef, 2> x_and_gradient = {ctx.inputs[2], ctx.outputs[0]};
  Kernel("gelu_backward")
      .run({{ctx.op, x_and_gradient, ctx.outputs, kTanh, ctx.workspace, ctx.workspace_bytes},
            ctx.pool});
}

int64_t Workspace(const graph::OpCall& call, int threads) {
  return Kernel("linear_dx").workspace(call, threads);
}

const CpuKernelRegistration kKernel({"linear_dx_gelu", &LinearDxGelu, &Workspace});

}  // namespace
}  // namespace plimsoll::ops
