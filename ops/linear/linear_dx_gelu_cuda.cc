// One cuBLASLt product whose epilogue reads x and multiplies by gelu' (cuda/gemm.h). The tanh of
// that epilogue is accurate enough for 16 bits; in float32 the kernels of linear_dx and
// gelu_backward run instead, one after the other. Bytes: every argument once.
#include <array>

#include "base/error.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

const graph::Attributes kTanh = {{"approximate", std::string("tanh")}};

const CudaKernel& Kernel(std::string_view op) {
  const CudaKernel* const kernel = FindCudaKernel(op);
  if (kernel == nullptr) throw InternalError("no CUDA kernel for " + std::string(op));
  return *kernel;
}

bool IsFused(const CudaContext& ctx) { return graph::IsLowPrecision(ctx.dtype()); }

CudaContext ProductAlone(const CudaContext& ctx) {
  return {{ctx.op, ctx.inputs.first(2), ctx.outputs, ctx.attributes, ctx.workspace,
           ctx.workspace_bytes},
          ctx.stream,
          ctx.libraries};
}

GemmProblem ProblemOf(const CudaContext& ctx) {
  const graph::Shape& weight = ctx.in_shape(1);
  GemmProblem p;
  p.m = ctx.in_shape(0).rows();
  p.n = weight.dim(1);
  p.k = weight.dim(0);
  p.lda = p.k;
  p.ldb = p.n;
  p.ldc = p.n;
  p.type_a = p.type_b = p.result = ctx.dtype();
  p.epilogue = GemmEpilogue::kGeluGradient;
  return p;
}

GemmBuffers BuffersOf(const CudaContext& ctx) {
  GemmBuffers buffers;
  buffers.a = ctx.in<void>(0);
  buffers.b = ctx.in<void>(1);
  buffers.d = ctx.out<void>(0);
  buffers.aux = ctx.in<void>(2);
  buffers.workspace = ctx.workspace;
  buffers.workspace_bytes = ctx.workspace_bytes;
  return buffers;
}

void LinearDxGelu(const CudaContext& ctx) {
  if (IsFused(ctx)) return Gemm(ctx.libraries, ctx.stream, ProblemOf(ctx), BuffersOf(ctx));
  Kernel("linear_dx").run(ProductAlone(ctx));
  const std::array<TensorRef, 2> x_and_gradient = {ctx.inputs[2], ctx.outputs[0]};
  Kernel("gelu_backward")
      .run({{ctx.op, x_and_gradient, ctx.outputs, kTanh, ctx.workspace, ctx.workspace_bytes},
            ctx.stream,
            ctx.libraries});
}

void PrepareLinearDxGelu(const CudaContext& ctx) {
  if (IsFused(ctx)) return PrepareGemm(ctx.libraries, ctx.stream, ProblemOf(ctx), BuffersOf(ctx));
  Kernel("linear_dx").prepare(ProductAlone(ctx));
}

const CudaKernelRegistration kKernel({"linear_dx_gelu", &LinearDxGelu, &PrepareLinearDxGelu});

}  // namespace
}  // namespace plimsoll::ops
