// out = y, + scale · u_i · b_iᵀ in each range     y is copied unless out is in its memory
// du_i = scale · dy[columns of i] · b_i
// db_i = scale · dy[columns of i]ᵀ · u_i + acc
//
// One product per range (cuda/gemm.h), with a row stride that skips the other ranges' columns.
// Bytes: every argument once; with out in place, only the ranges, read and written.
#include "gpu/check.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda_kernel.h"
#include "ops/linear/low_rank.h"

namespace plimsoll::ops {
namespace {

using graph::Shape;
using Take = FunctionRef<void(const GemmProblem&, const GemmBuffers&)>;

// The tensor's elements from `index` on.
const void* At(const TensorRef& tensor, int64_t index) {
  return static_cast<const char*>(tensor.data) + index * graph::ByteSize(tensor.type.dtype);
}
void* OutAt(const TensorRef& tensor, int64_t index) {
  return static_cast<char*>(tensor.data) + index * graph::ByteSize(tensor.type.dtype);
}

GemmProblem Problem(const CudaContext& ctx) {
  GemmProblem p;
  p.type_a = p.type_b = p.result = ctx.dtype();
  p.tf32 = UsesTf32(ctx.attributes, ctx.dtype());
  p.alpha = static_cast<float>(ctx.attributes.GetReal("scale"));
  return p;
}

GemmBuffers Buffers(const CudaContext& ctx) {
  GemmBuffers buffers;
  buffers.workspace = ctx.workspace;
  buffers.workspace_bytes = ctx.workspace_bytes;
  return buffers;
}

void AddProducts(const CudaContext& ctx, Take take) {
  const Shape &y = ctx.in_shape(0), &u = ctx.in_shape(1);
  const int64_t r = ctx.in_shape(2).dim(1);
  ForColumnRanges(ctx.attributes, [&](int64_t i, int64_t row, ColumnRange range) {
    GemmProblem p = Problem(ctx);
    p.trans_b = true;
    p.m = y.rows();
    p.n = range.columns;
    p.k = r;
    p.lda = u.dim(-1);
    p.ldb = r;
    p.ldc = y.dim(-1);
    p.beta = 1;
    GemmBuffers buffers = Buffers(ctx);
    buffers.a = At(ctx.inputs[1], i * r);
    buffers.b = At(ctx.inputs[2], row * r);
    buffers.d = OutAt(ctx.outputs[0], range.first);
    buffers.c = buffers.d;
    take(p, buffers);
  });
}

void DuProducts(const CudaContext& ctx, Take take) {
  const Shape& dy = ctx.in_shape(0);
  const int64_t r = ctx.in_shape(1).dim(1);
  ForColumnRanges(ctx.attributes, [&](int64_t i, int64_t row, ColumnRange range) {
    GemmProblem p = Problem(ctx);
    p.m = dy.rows();
    p.n = r;
    p.k = range.columns;
    p.lda = dy.dim(-1);
    p.ldb = r;
    p.ldc = ctx.out_shape(0).dim(-1);
    GemmBuffers buffers = Buffers(ctx);
    buffers.a = At(ctx.inputs[0], range.first);
    buffers.b = At(ctx.inputs[1], row * r);
    buffers.d = OutAt(ctx.outputs[0], i * r);
    take(p, buffers);
  });
}

void DbProducts(const CudaContext& ctx, Take take) {
  const Shape &u = ctx.in_shape(0), &dy = ctx.in_shape(1);
  const int64_t r = ctx.out_shape(0).dim(1);
  ForColumnRanges(ctx.attributes, [&](int64_t i, int64_t row, ColumnRange range) {
    GemmProblem p = Problem(ctx);
    p.trans_a = true;
    p.m = range.columns;
    p.n = r;
    p.k = dy.rows();
    p.lda = dy.dim(-1);
    p.ldb = u.dim(-1);
    p.ldc = r;
    p.result = graph::DType::kFloat32;
    p.beta = ctx.has_input(2) ? 1 : 0;
    GemmBuffers buffers = Buffers(ctx);
    buffers.a = At(ctx.inputs[1], range.first);
    buffers.b = At(ctx.inputs[0], i * r);
    if (ctx.has_input(2)) buffers.c = At(ctx.inputs[2], row * r);
    buffers.d = OutAt(ctx.outputs[0], row * r);
    take(p, buffers);
  });
}

template <void (*products)(const CudaContext&, Take)>
void Run(const CudaContext& ctx) {
  products(ctx, [&](const GemmProblem& problem, const GemmBuffers& buffers) {
    Gemm(ctx.libraries, ctx.stream, problem, buffers);
  });
}

template <void (*products)(const CudaContext&, Take)>
void Prepare(const CudaContext& ctx) {
  products(ctx, [&](const GemmProblem& problem, const GemmBuffers& buffers) {
    PrepareGemm(ctx.libraries, ctx.stream, problem, buffers);
  });
}

void AddLowRank(const CudaContext& ctx) {
  const TensorRef &y = ctx.inputs[0], &out = ctx.outputs[0];
  if (y.data != out.data && y.type.bytes() > 0) {
    gpu::Check(cudaMemcpyAsync(out.data, y.data, static_cast<size_t>(y.type.bytes()),
                               cudaMemcpyDeviceToDevice, ctx.stream),
               "cudaMemcpyAsync");
  }
  Run<&AddProducts>(ctx);
}

const CudaKernelRegistration kAddLowRank({"add_low_rank", &AddLowRank, &Prepare<&AddProducts>});
const CudaKernelRegistration kDu({"add_low_rank_du", &Run<&DuProducts>, &Prepare<&DuProducts>});
const CudaKernelRegistration kDb({"add_low_rank_db", &Run<&DbProducts>, &Prepare<&DbProducts>});

}  // namespace
}  // namespace plimsoll::ops
