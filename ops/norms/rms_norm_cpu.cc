// Forward: y = x · rstd · weight. With a unit offset, read 1 + weight for weight, here and below. A
// row stays in the first-level cache while it is read twice. Threads share the rows. Bytes:
// 2·N·D·s.
//
// Backward, with x̂ = x · rstd and ĝ = dy · weight:
//   dx = rstd · (ĝ − x̂ · Σ(ĝ·x̂) / D),   dweight = Σ_rows dy · x̂,
// in one pass over chunks of rows as in layer_norm_cpu.cc. Bytes: 3·N·D·s.
//
// To find its largest magnitude, a result is read once more: N·D·s.
#include <cmath>

#include "ops/kernel.h"
#include "ops/norms/norm_dropout_cpu.h"
#include "ops/norms/norm_rows.h"
#include "ops/reductions/cpu_largest.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void RmsNorm(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t rows = ctx.in_shape(0).rows();
    const int64_t width = ctx.in_shape(0).dim(-1);
    const T eps = static_cast<T>(ctx.attributes.GetReal("eps"));
    const S *all_x = ctx.in<S>(0), *weight = ctx.in<S>(1);
    S* all_y = ctx.out<S>(0);
    T* rstd_out = ctx.out<T>(1);
    DispatchUnitOffset(ctx.attributes, [&]<bool kUnitOffset>() {
      ctx.pool.ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const S* x = all_x + row * width;
          S* y = all_y + row * width;
          const T mean_square = SumVectors<T>(width,
                                              [&](int64_t i, auto count) {
                                                const Vec<T> v = Load<T>(x + i, count);
                                                return v * v;
                                              }) /
                                static_cast<T>(width);
          const T rstd = 1 / std::sqrt(mean_square + eps);
          RmsNormRow<kUnitOffset>(x, rstd, weight, width, y);
          if (rstd_out != nullptr) rstd_out[row] = rstd;
        }
      });
    });
  });
  StoreLargest(ctx);
}

// Returns Σ(ĝ·x̂) of a row. Adds the row's part of dweight, unless that is nullptr.
template <bool kUnitOffset, typename S, typename T>
T ReduceRow(const S* x, const S* weight, const S* dy, T rstd, int64_t width, T* dweight) {
  Vec<T> sum = {};
  ForVectors<T>(0, width, [&](int64_t i, auto count) {
    const Vec<T> d = Load<T>(dy + i, count);
    const Vec<T> product = d * (Load<T>(x + i, count) * rstd);
    sum += product * LoadWeight<kUnitOffset, T>(weight + i, count);
    if (dweight != nullptr) {
      Store<T>(dweight + i, Load<T>(dweight + i, count) + product, count);
    }
  });
  return SumLanes<T>(sum);
}

// Computes dx of a row. dx may share memory with dy or acc.
template <bool kUnitOffset, typename S, typename T>
void GradientRow(const S* x, const S* weight, const S* dy, T rstd, T sum, int64_t width,
                 const S* acc, S* dx) {
  const T mean = sum / static_cast<T>(width);
  ForVectors<T>(0, width, [&](int64_t i, auto count) {
    const Vec<T> g = Load<T>(dy + i, count) * LoadWeight<kUnitOffset, T>(weight + i, count);
    Vec<T> d = (g - Load<T>(x + i, count) * rstd * mean) * rstd;
    if (acc != nullptr) d += Load<T>(acc + i, count);
    Store<T>(dx + i, d, count);
  });
}

void RmsNormBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t rows = ctx.in_shape(0).rows();
    const int64_t width = ctx.in_shape(0).dim(-1);
    const S *x = ctx.in<S>(0), *weight = ctx.in<S>(1), *dy = ctx.in<S>(3), *acc_x = ctx.in<S>(4);
    const T* rstd = ctx.in<T>(2);
    // If dx is not requested, it is computed in the memory of output 2, which is then made from dx
    // in place.
    const TensorRef& gradient = ctx.outputs[ctx.has_output(0) || !ctx.has_output(2) ? 0 : 2];
    S* dx = static_cast<S*>(gradient.data);
    T* dweight = ctx.out<T>(1);
    const RowPartials<T> partials(ctx, rows, width, dweight != nullptr);
    DispatchUnitOffset(ctx.attributes, [&]<bool kUnitOffset>() {
      partials.ForChunks(ctx.pool, [&](int64_t begin, int64_t end, T* partial) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t at = row * width;
          const T sum = ReduceRow<kUnitOffset>(x + at, weight, dy + at, rstd[row], width, partial);
          if (dx == nullptr) continue;
          GradientRow<kUnitOffset>(x + at, weight, dy + at, rstd[row], sum, width,
                                   acc_x != nullptr ? acc_x + at : nullptr, dx + at);
        }
      });
    });
    if (dweight != nullptr) partials.Combine(ctx.pool, 0, ctx.in<T>(5), dweight);
    if (ctx.has_output(2)) RunDropout(ctx, gradient, ctx.inputs[6], ctx.outputs[2]);
  });
  StoreLargest(ctx);
}

int64_t BackwardWorkspace(const graph::OpCall& call, int) {
  return RowPartialsBytes(call.input(0), call.has_output(1));
}

const CpuKernelRegistration kForward({"rms_norm", &RmsNorm});
const CpuKernelRegistration kBackward({"rms_norm_backward", &RmsNormBackward, &BackwardWorkspace});

}  // namespace
}  // namespace plimsoll::ops
