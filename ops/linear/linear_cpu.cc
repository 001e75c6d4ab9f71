// linear     y = x · weightᵀ + bias      the bias is added in the product's epilogue
// linear_dx  dx = dy · weight + acc      acc is the product's C
// linear_dw  dweight = dyᵀ · x + acc,    dbias = column sums of dy + acc
//
// Each is one GEMM on all threads, which sums 16-bit types in float32. A `linear` of a few rows is
// bound by reading the weights and uses LinearOfFewRows instead. Bytes: every argument once, in
// addition to GEMM's packing; dy is read once more for dbias (column_sums.h).
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/thread_pool.h"
#include "ops/cpu/packed_gemm.h"
#include "ops/kernel.h"
#include "ops/linear/gemm_workspace.h"
#include "ops/linear/low_gradient_cpu.h"
#include "ops/reductions/cpu_column_sums.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;
using graph::TensorType;

// Up to this number of rows, the products take no longer than reading the weights.
constexpr int64_t kFewRows = 8;

// y = x · weightᵀ + bias for a few rows of x, as when text is generated token by token.
//
// Such a product is bound by reading the weights, each of which is used once or a few times. So
// every row of `weight` is read in place and multiplied with all rows of x while it is in the
// first-level cache; nothing is packed. Threads share the rows of `weight`. Sums use the compute
// type, over vectors in a fixed order (SumVectors). Bytes: N·K·s.
//
// x[M,K], weight[N,K], bias[N] or nullptr → y[M,N].
template <typename S>
void LinearOfFewRows(ThreadPool& pool, const S* x, int64_t m, const S* weight, int64_t n, int64_t k,
                     const S* bias, S* y) {
  using T = Compute<S>;
  constexpr int64_t kElements = 1 << 16;  // elements of weight that a thread takes at a time
  const int64_t grain = std::max<int64_t>(1, kElements / std::max<int64_t>(1, k));
  pool.ParallelFor(n, grain, [=](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const S* const w = weight + j * k;
      const Vec<T> start = bias == nullptr ? Vec<T>{} : Load<T>(bias + j, 1);
      for (int64_t i = 0; i < m; ++i) {
        const S* const row = x + i * k;
        const T product = SumVectors<T>(k, [=](int64_t p, auto count) {
          return Load<T>(row + p, count) * Load<T>(w + p, count);
        });
        Store<T>(y + i * n + j, start + product, 1);
      }
    }
  });
}

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

// The bytes of dweight in float32, at the beginning of the workspace, for a low gradient.
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
