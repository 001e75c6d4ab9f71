// Forward: y = (x − mean) · rstd · weight + bias. A row stays in the first-level cache while it is
// read three times (mean, variance, result). Threads share the rows. Bytes: 2·N·D·s.
//
// Backward, with x̂ = (x − mean) · rstd and ĝ = dy · weight:
//   dx = rstd · (ĝ − Σĝ / D − x̂ · Σ(ĝ·x̂) / D),   dweight = Σ_rows dy · x̂,   dbias = Σ_rows dy.
// One pass over chunks of rows, which the threads share: computes a row's two sums, adds to the
// chunk's partial dweight and dbias in the workspace, and then writes the row's dx. The partial
// sums are added in the order of the chunks; threads share the columns. Bytes: 3·N·D·s.
//
// To find its largest magnitude, a result is read once more: N·D·s.
#include <algorithm>
#include <cmath>

#include "ops/kernel.h"
#include "ops/norms/norm_dropout_cpu.h"
#include "ops/norms/norm_rows.h"
#include "ops/reductions/cpu_largest.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

template <typename S, typename T>
void ForwardRow(const S* x, const S* weight, const S* bias, T eps, int64_t width, S* y, T* mean_out,
                T* rstd_out) {
  const T mean =
      SumVectors<T>(width, [&](int64_t i, auto count) { return Load<T>(x + i, count); }) /
      static_cast<T>(width);
  const T variance = SumVectors<T>(width,
                                   [&](int64_t i, auto count) {
                                     const Vec<T> d = Load<T>(x + i, count) - mean;
                                     return d * d;
                                   }) /
                     static_cast<T>(width);
  const T rstd = 1 / std::sqrt(variance + eps);
  LayerNormRow(x, mean, rstd, weight, bias, width, y);
  if (mean_out != nullptr) *mean_out = mean;
  if (rstd_out != nullptr) *rstd_out = rstd;
}

void LayerNorm(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t rows = ctx.in_shape(0).rows();
    const int64_t width = ctx.in_shape(0).dim(-1);
    const T eps = static_cast<T>(ctx.attributes.GetReal("eps"));
    const S *x = ctx.in<S>(0), *weight = ctx.in<S>(1), *bias = ctx.in<S>(2);
    S* y = ctx.out<S>(0);
    T *mean = ctx.out<T>(1), *rstd = ctx.out<T>(2);
    ctx.pool.ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        ForwardRow(x + row * width, weight, bias, eps, width, y + row * width,
                   mean != nullptr ? mean + row : nullptr, rstd != nullptr ? rstd + row : nullptr);
      }
    });
  });
  StoreLargest(ctx);
}

template <typename T>
struct RowSums {
  T g = 0, gx = 0;  // Σĝ and Σ(ĝ·x̂)
};

// Computes the sums of a row, and adds its contribution to dweight and dbias.
template <typename S, typename T>
RowSums<T> ReduceRow(const S* x, const S* weight, const S* dy, T mean, T rstd, int64_t width,
                     T* dweight, T* dbias) {
  Vec<T> g_sum = {}, gx_sum = {};
  ForVectors<T>(0, width, [&](int64_t i, auto count) {
    // Lanes beyond `count` are zero in dy, so they add nothing.
    const Vec<T> d = Load<T>(dy + i, count);
    const Vec<T> normal = (Load<T>(x + i, count) - mean) * rstd;
    const Vec<T> g = d * Load<T>(weight + i, count);
    g_sum += g;
    gx_sum += g * normal;
    if (dweight != nullptr) {
      Store<T>(dweight + i, Load<T>(dweight + i, count) + d * normal, count);
    }
    if (dbias != nullptr) Store<T>(dbias + i, Load<T>(dbias + i, count) + d, count);
  });
  return {SumLanes<T>(g_sum), SumLanes<T>(gx_sum)};
}

// Computes dx of a row. dx may share memory with dy or acc.
template <typename S, typename T>
void GradientRow(const S* x, const S* weight, const S* dy, T mean, T rstd, RowSums<T> sums,
                 int64_t width, const S* acc, S* dx) {
  const T g_mean = sums.g / static_cast<T>(width);
  const T gx_mean = sums.gx / static_cast<T>(width);
  ForVectors<T>(0, width, [&](int64_t i, auto count) {
    const Vec<T> normal = (Load<T>(x + i, count) - mean) * rstd;
    const Vec<T> g = Load<T>(dy + i, count) * Load<T>(weight + i, count);
    Vec<T> d = (g - g_mean - normal * gx_mean) * rstd;
    if (acc != nullptr) d += Load<T>(acc + i, count);
    Store<T>(dx + i, d, count);
  });
}

void LayerNormBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t rows = ctx.in_shape(0).rows();
    const int64_t width = ctx.in_shape(0).dim(-1);
    const S *x = ctx.in<S>(0), *weight = ctx.in<S>(1);
    const T *mean = ctx.in<T>(2), *rstd = ctx.in<T>(3);
    const S *dy = ctx.in<S>(4), *acc_x = ctx.in<S>(5);
    // If dx is not requested, it is computed in the memory of the result that is made from it.
    const TensorRef& gradient = ctx.outputs[ctx.has_output(0) || !ctx.has_output(3) ? 0 : 3];
    S* dx = static_cast<S*>(gradient.data);
    T *dweight = ctx.out<T>(1), *dbias = ctx.out<T>(2);
    const RowPartials<T> partials(ctx, rows, width, (dweight != nullptr) + (dbias != nullptr));
    partials.ForChunks(ctx.pool, [&](int64_t begin, int64_t end, T* partial) {
      T* weight_sum = dweight != nullptr ? partial : nullptr;
      T* bias_sum = dbias == nullptr ? nullptr : dweight != nullptr ? partial + width : partial;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * width;
        const RowSums<T> sums =
            ReduceRow(x + at, weight, dy + at, mean[row], rstd[row], width, weight_sum, bias_sum);
        if (dx == nullptr) continue;
        GradientRow(x + at, weight, dy + at, mean[row], rstd[row], sums, width,
                    acc_x != nullptr ? acc_x + at : nullptr, dx + at);
      }
    });
    if (dweight != nullptr) partials.Combine(ctx.pool, 0, ctx.in<T>(6), dweight);
    if (dbias != nullptr)
      partials.Combine(ctx.pool, dweight != nullptr ? 1 : 0, ctx.in<T>(7), dbias);
    if (ctx.has_output(3)) RunDropout(ctx, gradient, ctx.inputs[8], ctx.outputs[3]);
  });
  StoreLargest(ctx);
}

int64_t BackwardWorkspace(const graph::OpCall& call, int) {
  const graph::TensorType& x = call.input(0);
  return RowPartialsBytes(x, call.has_output(1) + call.has_output(2));
}

const CpuKernelRegistration kForward({"layer_norm", &LayerNorm});
const CpuKernelRegistration kBackward({"layer_norm_backward", &LayerNormBackward,
                                       &BackwardWorkspace});

}  // namespace
}  // namespace plimsoll::ops
