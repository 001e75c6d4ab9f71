// linear     y = x · weightᵀ + bias      the bias enters in the product's epilogue
// linear_dx  dx = dy · weight + acc      acc enters as the product's C
// linear_dw  dweight = dyᵀ · x + acc,    dbias = column sums of dy + acc
//
// One GEMM each, on all threads; it sums 16-bit types in float32. A `linear` of a few rows is bound
// by reading the weights and goes without (few_rows.h). Column sums: a task takes
// kColumns columns of all rows, sums blocks of kRows rows in the compute type and the blocks in
// double. Bytes: every argument once beside GEMM's packing; dy is read once more for dbias.
#include <algorithm>
#include <cstring>

#include "ops/cpu/gemm.h"
#include "ops/few_rows.h"
#include "ops/gemm_workspace.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;
using graph::TensorType;

// 1 KiB of a row of floats: long enough for the prefetcher, sums stay in L1.
constexpr int64_t kColumns = 256;
constexpr int64_t kRows = 64;

// Makes out hold what the product then adds to; returns the product's beta.
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
    const int64_t m = ctx.in_shape(0).rows();
    const int64_t n = weight.dim(0);
    const int64_t k = weight.dim(1);
    if (m <= kFewRows) {
      LinearOfFewRows(ctx.pool, ctx.in<S>(0), m, ctx.in<S>(1), n, k, ctx.in<S>(2), ctx.out<S>(0));
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
    args.bias = ctx.in<S>(2);
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

// sums = the column sums of `rows` rows of dy, in groups of four rows.
template <typename S>
void AddRows(const S* dy, int64_t rows, int64_t stride, int64_t columns, Compute<S>* sums) {
  using T = Compute<S>;
  std::fill(sums, sums + columns, T(0));
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const S* a = dy + r * stride;
    ForVectors<T>(0, columns, [&](int64_t j, auto count) {
      const Vec<T> first = Load<T>(a + j, count) + Load<T>(a + stride + j, count);
      const Vec<T> second = Load<T>(a + 2 * stride + j, count) + Load<T>(a + 3 * stride + j, count);
      Store<T>(sums + j, Load<T>(sums + j, count) + (first + second), count);
    });
  }
  for (; r < rows; ++r) {
    const S* a = dy + r * stride;
    ForVectors<T>(0, columns, [&](int64_t j, auto count) {
      Store<T>(sums + j, Load<T>(sums + j, count) + Load<T>(a + j, count), count);
    });
  }
}

template <typename S>
void ColumnSums(const S* dy, int64_t rows, int64_t n, const Compute<S>* acc, Compute<S>* out,
                ThreadPool& pool) {
  using T = Compute<S>;
  pool.ParallelFor(n, kColumns, [&](int64_t begin, int64_t end) {
    alignas(64) T sums[kColumns];
    alignas(64) double totals[kColumns] = {};
    const int64_t columns = end - begin;
    for (int64_t r = 0; r < rows; r += kRows) {
      AddRows(dy + r * n + begin, std::min(kRows, rows - r), n, columns, sums);
      for (int64_t j = 0; j < columns; ++j) totals[j] += sums[j];
    }
    for (int64_t j = 0; j < columns; ++j) {
      const double start = acc == nullptr ? 0 : acc[begin + j];
      out[begin + j] = static_cast<T>(start + totals[j]);
    }
  });
}

void LinearDw(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Shape& x = ctx.in_shape(0);
    const int64_t rows = x.rows();
    const int64_t k = x.dim(-1);
    const int64_t n = ctx.in_shape(1).dim(-1);
    if (ctx.has_output(1)) {
      ColumnSums(ctx.in<S>(1), rows, n, ctx.in<T>(3), ctx.out<T>(1), ctx.pool);
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
    args.c = ctx.out<T>(0);
    args.ldc = k;
    args.beta = StartFrom(ctx.in<T>(2), args.c, n * k, ctx.pool);
    cpu::Gemm(ctx.pool, args, ctx.workspace, ctx.workspace_bytes);
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
  return GemmBytes(graph::ComputeType(x.dtype), call.input(1).shape.dim(-1), x.shape.dim(-1),
                   x.shape.rows());
}

const CpuKernelRegistration kLinear({"linear", &Linear, &LinearWorkspace});
const CpuKernelRegistration kLinearDx({"linear_dx", &LinearDx, &LinearDxWorkspace});
const CpuKernelRegistration kLinearDw({"linear_dw", &LinearDw, &LinearDwWorkspace});

}  // namespace
}  // namespace plimsoll::ops
