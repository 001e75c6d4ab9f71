// linear     y = x · weightᵀ + bias      the bias is added in the product's epilogue
// linear_dx  dx = dy · weight + acc      acc is the product's C
// linear_dw  dweight = dyᵀ · x + acc,    dbias = column sums of dy + acc
//
// Each is one product (cuda/products/gemm.h), or a few if a gradient in bf16 is added to
// (cuda/products/low_gradient.h). dbias is computed with dweight, or alone by a kernel that reads
// dy once (cuda/column_sums.h). Bytes: every argument once, dy possibly once more for dbias.
#include "ops/linear/linear_cuda.h"

#include <algorithm>

#include "ops/cuda/column_sums.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/low_gradient.h"

namespace plimsoll::ops {
namespace {

using graph::Shape;

struct Product {
  GemmProblem problem;
  GemmBuffers buffers;
};

void Run(const CudaContext& ctx, const Product& product) {
  Gemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
}

void Prepare(const CudaContext& ctx, const Product& product) {
  PrepareGemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
}

GemmBuffers BuffersOf(const CudaContext& ctx, const void* a, const void* b, const void* c,
                      void* d) {
  GemmBuffers buffers;
  buffers.a = a;
  buffers.b = b;
  buffers.c = c;
  buffers.d = d;
  buffers.workspace = ctx.workspace;
  buffers.workspace_bytes = std::min(ctx.workspace_bytes, kGemmWorkspaceBytes);
  return buffers;
}

Product LinearProduct(const CudaContext& ctx) {
  const Shape& weight = ctx.in_shape(1);
  Product product;
  GemmProblem& p = product.problem;
  p.trans_b = true;
  p.m = ctx.in_shape(0).rows();
  p.n = weight.dim(0);
  p.k = weight.dim(-1);
  p.lda = p.k;
  p.ldb = p.k;
  p.ldc = p.n;
  p.type_a = p.type_b = p.result = ctx.dtype();
  p.tf32 = UsesTf32(ctx.attributes, ctx.dtype());
  product.buffers = BuffersOf(ctx, ctx.in<void>(0), ctx.in<void>(1), nullptr, ctx.out<void>(0));
  if (ctx.has_input(2) && ctx.adds_once()) {
    p.epilogue = GemmEpilogue::kBias;
    product.buffers.bias = ctx.in<void>(2);
  }
  return product;
}

Product LinearDxProduct(const CudaContext& ctx) {
  const Shape& weight = ctx.in_shape(1);
  Product product;
  GemmProblem& p = product.problem;
  p.m = ctx.in_shape(0).rows();
  p.n = weight.dim(-1);
  p.k = weight.dim(0);
  p.lda = p.k;
  p.ldb = p.n;
  p.ldc = p.n;
  p.type_a = p.type_b = p.result = ctx.dtype();
  p.tf32 = UsesTf32(ctx.attributes, ctx.dtype());
  p.beta = ctx.has_input(2) ? 1 : 0;
  product.buffers =
      BuffersOf(ctx, ctx.in<void>(0), ctx.in<void>(1), ctx.in<void>(2), ctx.out<void>(0));
  return product;
}

Product LinearDwProduct(const CudaContext& ctx) {
  Product product;
  GemmProblem& p = product.problem;
  p.trans_a = true;
  p.m = ctx.in_shape(1).dim(-1);
  p.n = ctx.in_shape(0).dim(-1);
  p.k = ctx.in_shape(0).rows();
  p.lda = p.m;
  p.ldb = p.n;
  p.ldc = p.n;
  p.type_a = p.type_b = ctx.dtype();
  p.tf32 = UsesTf32(ctx.attributes, ctx.dtype());
  p.result = graph::DType::kFloat32;
  p.beta = ctx.has_input(2) ? 1 : 0;
  product.buffers =
      BuffersOf(ctx, ctx.in<void>(1), ctx.in<void>(0), ctx.in<void>(2), ctx.out<void>(0));
  if (ctx.has_output(1) && p.n > 0) {
    p.epilogue = GemmEpilogue::kSums;
    product.buffers.sums = ctx.out<float>(1);
    product.buffers.old_sums = ctx.in<float>(3);
  }
  return product;
}

bool IsLow(const CudaContext& ctx) {
  return ctx.has_output(0) && ctx.outputs[0].type.dtype != graph::DType::kFloat32;
}

LowGradient LowLinearDw(const CudaContext& ctx) {
  const Product product = LinearDwProduct(ctx);
  LowGradient gradient{product.problem, product.buffers, {}, nullptr};
  gradient.problem.result = graph::DType::kBFloat16;
  gradient.problem.beta = 0;
  gradient.problem.epilogue = GemmEpilogue::kNone;
  gradient.random = {ctx.in<int32_t>(4), static_cast<uint64_t>(ctx.attributes.GetInt("key"))};
  gradient.wide = static_cast<char*>(ctx.workspace) + kGemmWorkspaceBytes;
  return gradient;
}

}  // namespace

void Linear(const CudaContext& ctx) { Run(ctx, LinearProduct(ctx)); }
void PrepareLinear(const CudaContext& ctx) { Prepare(ctx, LinearProduct(ctx)); }

void LinearDx(const CudaContext& ctx) { Run(ctx, LinearDxProduct(ctx)); }
void PrepareLinearDx(const CudaContext& ctx) { Prepare(ctx, LinearDxProduct(ctx)); }

void LinearDw(const CudaContext& ctx) {
  const bool low = IsLow(ctx);
  if (low) {
    ComputeLowGradient(ctx.libraries, ctx.stream, LowLinearDw(ctx));
  } else if (ctx.has_output(0)) {
    Run(ctx, LinearDwProduct(ctx));
  }
  if (ctx.has_output(1) && (low || !ctx.has_output(0) || ctx.in_shape(0).dim(-1) == 0)) {
    const Shape& dy = ctx.in_shape(1);
    ColumnSums(ctx.stream, ctx.dtype(), ctx.in<void>(1), dy.rows(), dy.dim(-1), ctx.in<float>(3),
               ctx.out<float>(1), ctx.workspace);
  }
}
void PrepareLinearDw(const CudaContext& ctx) {
  if (IsLow(ctx)) return PrepareLowGradient(ctx.libraries, ctx.stream, LowLinearDw(ctx));
  if (ctx.has_output(0)) Prepare(ctx, LinearDwProduct(ctx));
}

namespace {

const CudaKernelRegistration kLinear({"linear", &Linear, &PrepareLinear});
const CudaKernelRegistration kLinearDx({"linear_dx", &LinearDx, &PrepareLinearDx});
const CudaKernelRegistration kLinearDw({"linear_dw", &LinearDw, &PrepareLinearDw});

}  // namespace
}  // namespace plimsoll::ops
