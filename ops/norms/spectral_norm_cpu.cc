// Formulas in spectral_norm.h; ⟨dy, y⟩ = ⟨dy, W⟩ / σ, so y is not needed again. Threads share rows,
// and blocks of columns for Wᵀ·u; sums of rows are added in the order of rows, in double. Bytes:
// power_iteration 2·n·s, spectral_norm 3·n·s, backward n·s + 3·n·4, and acc.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/kernel.h"
#include "ops/norms/spectral_norm.h"
#include "ops/norms/spectral_sums.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kColumnsOfBlock = 256;

// The first `count` elements from memory, as a vector of T.
template <typename T, typename S>
Vec<T> LoadAs(const S* from, int count) {
  if constexpr (std::is_same_v<T, double> && std::is_same_v<S, float>) {
    Vec<T> v = {};
    for (int i = 0; i < count; ++i) v[i] = from[i];
    return v;
  } else {
    return Load<T>(from, count);
  }
}

// Σ a·b over n elements.
template <typename T, typename A, typename B>
T Dot(int64_t n, const A* a, const B* b) {
  return SumVectors<T>(
      n, [=](int64_t i, auto count) { return LoadAs<T>(a + i, count) * LoadAs<T>(b + i, count); });
}

// x / max(‖x‖, ε), in place.
void Normalize(int64_t n, float* x) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += double{x[i]} * x[i];
  const double norm = std::max(std::sqrt(squares), kSpectralEps);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] / norm);
}

// to = Wᵀ·u.
template <typename T, typename S>
void MultiplyTransposed(ThreadPool& pool, const SpectralSums& size, const S* weight, const float* u,
                        float* to) {
  pool.ParallelFor(size.columns, kColumnsOfBlock, [&](int64_t begin, int64_t end) {
    T sums[kColumnsOfBlock] = {};
    for (int64_t row = 0; row < size.rows; ++row) {
      const T factor = u[row];
      ForVectors<T>(begin, end, [&](int64_t i, auto count) {
        T* const sum = sums + (i - begin);
        Store<T>(sum,
                 Load<T>(sum, count) + factor * Load<T>(weight + row * size.columns + i, count),
                 count);
      });
    }
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(sums[i - begin]);
  });
}

// One power iteration. `next_v` may be `v`.
template <typename T, typename S>
void Iterate(ThreadPool& pool, const SpectralSums& size, const S* weight, const float* v,
             float* next_u, float* next_v) {
  pool.ParallelFor(size.rows, 1, [&](int64_t row, int64_t) {
    next_u[row] = static_cast<float>(Dot<T>(size.columns, weight + row * size.columns, v));
  });
  Normalize(size.rows, next_u);
  MultiplyTransposed<T>(pool, size, weight, next_u, next_v);
  Normalize(size.columns, next_v);
}

void PowerIteration(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    Iterate<Compute<S>>(ctx.pool, SpectralSums(ctx.in_shape(0)), ctx.in<S>(0), ctx.in<float>(1),
                        ctx.out<float>(0), ctx.out<float>(1));
  });
}

// The sum of term(row) over the rows. Threads share the terms, which are stored in the workspace.
template <typename T, typename Term>
T SumRows(const CpuContext& ctx, int64_t rows, const Term& term) {
  T* const terms = static_cast<T*>(ctx.workspace);
  ctx.pool.ParallelFor(rows, 1, [&](int64_t row, int64_t) { terms[row] = term(row); });
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) sum += terms[row];
  return static_cast<T>(sum);
}

int64_t RowsWorkspace(const graph::OpCall& call, int /*threads*/) {
  const graph::TensorType& weight = call.input(0);
  return weight.shape.dim(0) * graph::ByteSize(graph::ComputeType(weight.dtype));
}

void SpectralNorm(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const SpectralSums size(ctx.in_shape(0));
    const S* const weight = ctx.in<S>(0);
    const float *const u = ctx.in<float>(1), *const v = ctx.in<float>(2);
    const T sigma = SumRows<T>(ctx, size.rows, [=](int64_t row) {
      return u[row] * Dot<T>(size.columns, weight + row * size.columns, v);
    });
    if (T* const kept = ctx.out<T>(1)) *kept = sigma;
    S* const y = ctx.out<S>(0);
    ParallelVectors<T>(ctx.pool, size.rows * size.columns, [=](int64_t i, auto count) {
      Store<T>(y + i, Load<T>(weight + i, count) / sigma, count);
    });
  });
}

void SpectralNormBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const SpectralSums size(ctx.in_shape(0));
    const int64_t columns = size.columns;
    const S* const weight = ctx.in<S>(0);
    const float *const u = ctx.in<float>(1), *const v = ctx.in<float>(2);
    const T sigma = *ctx.in<T>(3);
    const T *const dy = ctx.in<T>(4), *const acc = ctx.in<T>(5);
    const T product = SumRows<T>(ctx, size.rows, [=](int64_t row) {
      return Dot<T>(columns, dy + row * columns, weight + row * columns);
    });
    T* const dweight = ctx.out<T>(0);
    ctx.pool.ParallelFor(size.rows, 1, [=](int64_t row, int64_t) {
      const T along = product / sigma * u[row];
      const int64_t first = row * columns;
      ForVectors<T>(0, columns, [=](int64_t i, auto count) {
        Vec<T> gradient =
            (Load<T>(dy + first + i, count) - along * LoadAs<T>(v + i, count)) / sigma;
        if (acc != nullptr) gradient += Load<T>(acc + first + i, count);
        Store<T>(dweight + first + i, gradient, count);
      });
    });
  });
}

const CpuKernelRegistration kPowerIteration({"power_iteration", &PowerIteration});
const CpuKernelRegistration kSpectralNorm({"spectral_norm", &SpectralNorm, &RowsWorkspace});
const CpuKernelRegistration kSpectralNormBackward({"spectral_norm_backward", &SpectralNormBackward,
                                                   &RowsWorkspace});

}  // namespace

void PowerIterations(ThreadPool& pool, const graph::Shape& weight_shape, const float* weight,
                     int count, float* u, float* v) {
  const SpectralSums size(weight_shape);
  for (int i = 0; i < count; ++i) Iterate<float>(pool, size, weight, v, u, v);
}

}  // namespace plimsoll::ops
