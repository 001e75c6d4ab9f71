// y = x_scale · weight_scale · x · weightᵀ + bias + acc, of 8-bit codes
// (ops/linear/scaled_linear.h)
//
// One product (cuda/products/gemm.h): its epilogue applies scales and bias, and acc is its C. If a
// gradient in bf16 is added to, a few products (cuda/products/low_gradient.h). Bytes: every
// argument once.
#include <algorithm>

#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/low_gradient.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

using graph::Shape;

constexpr size_t kBias = 4, kAcc = 5, kRng = 6;

GemmProblem ProblemOf(const CudaContext& ctx) {
  const Shape& weight = ctx.in_shape(1);
  GemmProblem p;
  p.trans_b = true;
  p.m = ctx.in_shape(0).rows();
  p.n = p.ldc = weight.dim(0);
  p.k = p.lda = p.ldb = weight.dim(1);
  p.type_a = ctx.inputs[0].type.dtype;
  p.type_b = ctx.inputs[1].type.dtype;
  p.result = ctx.outputs[0].type.dtype;
  p.fast_accumulation = ctx.attributes.Has("fast") && ctx.attributes.GetBool("fast");
  p.beta = ctx.has_input(kAcc) ? 1 : 0;
  if (ctx.has_input(kBias) && ctx.adds_once()) p.epilogue = GemmEpilogue::kBias;
  return p;
}

GemmBuffers BuffersOf(const CudaContext& ctx) {
  GemmBuffers buffers;
  buffers.a = ctx.in<void>(0);
  buffers.b = ctx.in<void>(1);
  buffers.scale_a = ctx.in<float>(2);
  buffers.scale_b = ctx.in<float>(3);
  if (ctx.adds_once()) buffers.bias = ctx.in<void>(kBias);
  buffers.c = ctx.in<void>(kAcc);
  buffers.d = ctx.out<void>(0);
  buffers.workspace = ctx.workspace;
  buffers.workspace_bytes = std::min(ctx.workspace_bytes, kGemmWorkspaceBytes);
  return buffers;
}

bool IsLow(const CudaContext& ctx) { return ctx.attributes.Has("low_gradient"); }

LowGradient LowGradientOf(const CudaContext& ctx) {
  LowGradient gradient{ProblemOf(ctx), BuffersOf(ctx), {}, nullptr};
  gradient.problem.beta = 0;  // C is added after the product
  gradient.random = {ctx.in<int32_t>(kRng), static_cast<uint64_t>(ctx.attributes.GetInt("key"))};
  gradient.wide = static_cast<char*>(ctx.workspace) + kGemmWorkspaceBytes;
  return gradient;
}

void ScaledLinear(const CudaContext& ctx) {
  if (IsLow(ctx)) return ComputeLowGradient(ctx.libraries, ctx.stream, LowGradientOf(ctx));
  Gemm(ctx.libraries, ctx.stream, ProblemOf(ctx), BuffersOf(ctx));
}

void PrepareScaledLinear(const CudaContext& ctx) {
  if (IsLow(ctx)) return PrepareLowGradient(ctx.libraries, ctx.stream, LowGradientOf(ctx));
  PrepareGemm(ctx.libraries, ctx.stream, ProblemOf(ctx), BuffersOf(ctx));
}

const CudaKernelRegistration kScaledLinear({"scaled_linear", &ScaledLinear, &PrepareScaledLinear});

}  // namespace
}  // namespace plimsoll::ops
