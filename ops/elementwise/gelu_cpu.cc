// "tanh": since (1 + tanh u) / 2 = σ(2u), y = x · σ(2u) with u = √(2/π) · (x + 0.044715·x³), and
//   dx = dy · (σ + x · σ · (1 − σ) · 2u').
// "none": y = x · Φ(x),   dx = dy · (Φ + x · φ).
// Threads share chunks of elements. Bytes: forward 2·n·s, backward 3·n·s, both at once 4·n·s; the
// gradient of the bias reads dx once more.
#include "ops/kernel.h"
#include "ops/reductions/cpu_column_sums.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// 2u = kSlope · x + kCubic · x³.
constexpr double kSlope = 1.59576912160573071176;  // 2 · √(2/π)
constexpr double kCubic = kSlope * 0.044715;

template <typename T>
Vec<T> TwiceU(Vec<T> x) {
  return x * (x * x * static_cast<T>(kCubic) + static_cast<T>(kSlope));
}

template <typename T>
Vec<T> TanhGradient(Vec<T> x) {
  const Vec<T> s = Sigmoid<T>(TwiceU<T>(x));
  const Vec<T> slope = x * x * static_cast<T>(3 * kCubic) + static_cast<T>(kSlope);
  return s + x * s * (1 - s) * slope;
}

bool IsTanh(const CpuContext& ctx) { return ctx.attributes.GetWord("approximate") == "tanh"; }

void Gelu(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t n = ctx.in_shape(0).elements();
    const S* x = ctx.in<S>(0);
    S* y = ctx.out<S>(0);
    if (IsTanh(ctx)) {
      ParallelVectors<T>(ctx.pool, n, [=](int64_t i, auto count) {
        const Vec<T> v = Load<T>(x + i, count);
        Store<T>(y + i, v * Sigmoid<T>(TwiceU<T>(v)), count);
      });
    } else {
      ParallelVectors<T>(ctx.pool, n, [=](int64_t i, auto count) {
        const Vec<T> v = Load<T>(x + i, count);
        Store<T>(y + i, v * NormalDistribution<T>(v).cdf, count);
      });
    }
  });
}

void GeluBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t n = ctx.in_shape(0).elements();
    const S *x = ctx.in<S>(0), *dy = ctx.in<S>(1);
    S* dx = ctx.out<S>(0);
    if (IsTanh(ctx)) {
      ParallelVectors<T>(ctx.pool, n, [=](int64_t i, auto count) {
        const Vec<T> v = Load<T>(x + i, count);
        Store<T>(dx + i, Load<T>(dy + i, count) * TanhGradient<T>(v), count);
      });
    } else {
      ParallelVectors<T>(ctx.pool, n, [=](int64_t i, auto count) {
        const Vec<T> v = Load<T>(x + i, count);
        const Normal<T> normal = NormalDistribution<T>(v);
        Store<T>(dx + i, Load<T>(dy + i, count) * (normal.cdf + v * normal.density), count);
      });
    }
  });
}

// Computes both results from one read, each by the expression of its own op: the same bits.
template <typename T>
struct ValueAndSlope {
  Vec<T> value, slope;
};

template <bool kTanh, typename T>
ValueAndSlope<T> Both(Vec<T> x) {
  if constexpr (kTanh) {
    return {x * Sigmoid<T>(TwiceU<T>(x)), TanhGradient<T>(x)};
  } else {
    const Normal<T> normal = NormalDistribution<T>(x);
    return {x * normal.cdf, normal.cdf + x * normal.density};
  }
}

template <bool kTanh, typename S>
void RunWithBackward(const CpuContext& ctx) {
  using T = Compute<S>;
  const S *x = ctx.in<S>(0), *dy = ctx.in<S>(1);
  S *y = ctx.out<S>(0), *dx = ctx.out<S>(1);
  ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
    const Vec<T> d = Load<T>(dy + i, count);
    const ValueAndSlope<T> both = Both<kTanh, T>(Load<T>(x + i, count));
    if (y != nullptr) Store<T>(y + i, both.value, count);
    Store<T>(dx + i, d * both.slope, count);
  });
}

void GeluWithBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    IsTanh(ctx) ? RunWithBackward<true, S>(ctx) : RunWithBackward<false, S>(ctx);
    if (!ctx.has_output(2)) return;
    const graph::Shape& x = ctx.in_shape(0);
    ColumnSums(ctx.out<S>(1), x.rows(), x.dim(-1), x.dim(-1), ctx.in<T>(2), ctx.out<T>(2),
               ctx.pool);
  });
}

const CpuKernelRegistration kGelu({"gelu", &Gelu});
const CpuKernelRegistration kGeluBackward({"gelu_backward", &GeluBackward});
const CpuKernelRegistration kGeluWithBackward({"gelu_with_backward", &GeluWithBackward});

}  // namespace
}  // namespace plimsoll::ops
