// c = op(a) · op(b) for each index of the leading dimensions: one batched cuBLASLt product
// (cuda/gemm.h). Bytes: every argument once.
#include "ops/cuda/products/gemm.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

using graph::Shape;

GemmProblem ProblemOf(const CudaContext& ctx) {
  const Shape& a = ctx.in_shape(0);
  const Shape& b = ctx.in_shape(1);
  GemmProblem p;
  p.trans_a = ctx.attributes.GetBool("trans_a");
  p.trans_b = ctx.attributes.GetBool("trans_b");
  p.m = a.dim(p.trans_a ? -1 : -2);
  p.k = a.dim(p.trans_a ? -2 : -1);
  p.n = b.dim(p.trans_b ? -2 : -1);
  p.lda = a.dim(-1);
  p.ldb = b.dim(-1);
  p.ldc = p.n;
  for (int i = 0; i < a.rank() - 2; ++i) p.batch *= a.dim(i);
  p.stride_a = p.m * p.k;
  p.stride_b = p.k * p.n;
  p.stride_c = p.m * p.n;
  p.type_a = p.type_b = p.result = ctx.dtype();
  p.tf32 = UsesTf32(ctx.attributes, ctx.dtype());
  return p;
}

GemmBuffers BuffersOf(const CudaContext& ctx) {
  GemmBuffers buffers;
  buffers.a = ctx.in<void>(0);
  buffers.b = ctx.in<void>(1);
  buffers.d = ctx.out<void>(0);
  buffers.workspace = ctx.workspace;
  buffers.workspace_bytes = ctx.workspace_bytes;
  return buffers;
}

void Matmul(const CudaContext& ctx) {
  Gemm(ctx.libraries, ctx.stream, ProblemOf(ctx), BuffersOf(ctx));
}
void PrepareMatmul(const CudaContext& ctx) {
  PrepareGemm(ctx.libraries, ctx.stream, ProblemOf(ctx), BuffersOf(ctx));
}

const CudaKernelRegistration kMatmul({"matmul", &Matmul, &PrepareMatmul});

}  // namespace
}  // namespace plimsoll::ops
