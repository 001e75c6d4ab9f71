// linear     y = x · weightᵀ + bias      the bias enters in the product's epilogue
// linear_dx  dx = dy · weight + acc      acc enters as the product's C
// linear_dw  dweight = dyᵀ · x + acc,    dbias = column sums of dy + acc
//
// One GEMM each, on all threads; it sums 16-bit types in float32. A `linear` of a few rows is bound
// by reading the weights and uses few_rows.h instead. Bytes: every argument once besides GEMM's
// packing; dy is read once more for dbias (column_sums.h).
#include <algorithm>
#include <cstring>

#include "ops/cpu/packed_gemm.h"
#include "ops/kernel.h"
#include "ops/linear/few_rows.h"
#include "ops/linear/gemm_workspace.h"
#include "ops/linear/low_gradient_cpu.h"
#include "ops/reductions/cpu_column_sums.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;
using graph::TensorType;

// Initializes `out` for the product to add to; returns the product's beta.
template <typename T>
Compute<T> StartFrom(const T* acc, T* out, int64_t elements, ThreadPool& pool) {
  if (acc == nullptr) return 0;
  if (acc != out) {
    pool.ParallelFor(elements, 1 << 16, [&](int64_t begin, int64_t end) {
      std::copy(acc + begin, acc + end, out + begin);
    });
  }
  return 1;
}

void Linear(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const Shape& weight = ctx.in_shape(1);
    const S* const bias = ctx.adds_once() ? ctx.in<S>(2) : nullptr;
    const int64_t m = ctx.in_shape(0).rows();
    const int64_t n = weight.dim(0);
    const int64_t k = weight.dim(1);
    if (m <= kFewRows) {
      LinearOfFewRows(ctx.pool, ctx.in<S>(0), m, ctx.in<S>(1), n, k, bias, ctx.out<S>(0));
      return;
    }
    cpu::GemmArgs<S> args;
    args.trans_b = true;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = ctx.in<S>(0);
    args.lda = k;
    args.b = ctx.in<S>(1);
    args.ldb = k;
    args.c = ctx.out<S>(0);
    args.ldc = n;
    args.bias = bias;
    cpu::Gemm(ctx.pool, args, ctx.workspace, ctx.workspace_bytes);
  });
}

void LinearDx(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const Shape& weight = ctx.in_shape(1);
    const int64_t n = weight.dim(0);
    const int64_t k = weight.dim(1);
    cpu::GemmArgs<S> args;
    args.m = ctx.in_shape(0).rows();
    args.n = k;
    args.k = n;
    args.a = ctx.in<S>(0);
    args.lda = n;
    args.b = ctx.in<S>(1);
    args.ldb = k;
    args.c = ctx.out<S>(0);
    args.ldc = k;
    args.beta = StartFrom(ctx.in<S>(2), args.c, args.m * k, ctx.pool);
    cpu::Gemm(ctx.pool, args, ctx.workspace, ctx.workspace_bytes);
  });
}

// With a low gradient, dweight is computed in float32 at the beginning of the workspace.
int64_t WideBytes(bool low, int64_t elements) {
  return low ? (elements * int64_t{sizeof(float)} + 63) / 64 * 64 : 0;
}

void LinearDw(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Shape& x = ctx.in_shape(0);
    const int64_t rows = x.rows();
    const int64_t k = x.dim(-1);
    const int64_t n = ctx.in_shape(1).dim(-1);
    if (ctx.has_output(1)) {
      ColumnSums(ctx.in<S>(1), rows, n, n, ctx.in<T>(3), ctx.out<T>(1), ctx.pool);
    }
    if (!ctx.has_output(0)) return;
    cpu::GemmArgs<S, S, T> args;
    args.trans_a = true;
    args.m = n;
    args.n = k;
    args.k = rows;
    args.a = ctx.in<S>(1);
    args.lda = n;
    args.b = ctx.in<S>(0);
    args.ldb = k;
    args.ldc = k;
    const bool low = ctx.outputs[0].type.dtype == graph::DType::kBFloat16;
    const int64_t wide = WideBytes(low, n * k);
    char* const gemm = static_cast<char*>(ctx.workspace) + wide;
    if constexpr (std::is_same_v<S, BFloat16>) {
      if (low) {
        args.c = static_cast<float*>(ctx.workspace);
        cpu::Gemm(ctx.pool, args, gemm, ctx.workspace_bytes - wide);
        return StoreLowGradient(ctx, args.c, 2, 4, 0);
      }
    }
    args.c = ctx.out<T>(0);
    args.beta = StartFrom(ctx.in<T>(2), args.c, n * k, ctx.pool);
    cpu::Gemm(ctx.pool, args, gemm, ctx.workspace_bytes - wide);
  });
}

int64_t LinearWorkspace(const OpCall& call, int /*threads*/) {
  const Shape& weight = call.input(1).shape;
  const int64_t m = call.input(0).shape.rows();
  if (m <= kFewRows) return 0;
  return GemmBytes(call.input(0).dtype, m, weight.dim(0), weight.dim(1));
}

int64_t LinearDxWorkspace(const OpCall& call, int /*threads*/) {
  const Shape& weight = call.input(1).shape;
  return GemmBytes(call.input(0).dtype, call.input(0).shape.rows(), weight.dim(1), weight.dim(0));
}

int64_t LinearDwWorkspace(const OpCall& call, int /*threads*/) {
  const TensorType& x = call.input(0);
  const int64_t n = call.input(1).shape.dim(-1), k = x.shape.dim(-1);
  const bool low = call.has_output(0) && call.output(0).dtype == graph::DType::kBFloat16;
  return WideBytes(low, n * k) + GemmBytes(graph::ComputeType(x.dtype), n, k, x.shape.rows());
}

const CpuKernelRegistration kLinear({"linear", &Linear, &LinearWorkspace});
const CpuKernelRegistration kLinearDx({"linear_dx", &LinearDx, &LinearDxWorkspace});
const CpuKernelRegistration kLinearDw({"linear_dw", &LinearDw, &LinearDwWorkspace});

}  // namespace
}  // namespace plimsoll::ops
