// relu:       y = max(x, 0),   dx = dy where y > 0, else 0.
// leaky_relu: y = x where x > 0, else slope · x,   dx = dy where y > 0, else slope · dy.
// sigmoid:    y = 1 / (1 + e^−x),   dx = dy · y · (1 − y).
// tanh:       y = 1 − 2 / (1 + e^2x),   dx = dy · (1 − y²).
// silu:       y = x · σ,   dx = dy · σ · (1 + x · (1 − σ)).
// gelu, "tanh": since (1 + tanh u) / 2 = σ(2u), y = x · σ(2u) with u = √(2/π) · (x + 0.044715·x³),
//             and dx = dy · (σ + x · σ · (1 − σ) · 2u').
// gelu, "none": y = x · Φ(x),   dx = dy · (Φ + x · φ).
// softcap:    y = cap · tanh(x / cap),   dx = dy · (1 − tanh²(x / cap)).
// swiglu:     y = silu(gate) · up,   dgate = dy · up · silu'(gate),   dup = dy · silu(gate).
// geglu:      the same with gelu, "tanh", for silu.
// Threads share chunks of elements (swiglu and geglu: rows). Bytes: forward 2·n·s, backward 3·n·s,
// gelu with its gradient 4·n·s, and the gradient of the bias reads dx once more; for N rows of F
// results, swiglu and geglu 3·N·F·s, backward 5·N·F·s, both at once 6·N·F·s.
//
// An op with its gradient computes both from one read, each by the expression of its own op: the
// same bits.
#include <cmath>
#include <type_traits>

#include "ops/elementwise/cpu_elementwise.h"
#include "ops/kernel.h"
#include "ops/reductions/cpu_column_sums.h"
#include "ops/reductions/cpu_largest.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// As in PyTorch, y is NaN where x is NaN. There dx is dy (leaky: slope · dy), because NaN is
// neither above nor below 0.
void LeakyRelu(const CpuContext& ctx) {
  const double slope = ctx.attributes.GetReal("slope");
  MapElements<1>(ctx, [=]<typename T>(Vec<T> x) { return x > 0 ? x : x * static_cast<T>(slope); });
}

void LeakyReluBackward(const CpuContext& ctx) {
  const double slope = ctx.attributes.GetReal("slope");
  MapElements<2>(ctx, [=]<typename T>(Vec<T> y, Vec<T> dy) {
    return y > 0 ? dy : dy * static_cast<T>(slope);
  });
}

void Softcap(const CpuContext& ctx) {
  const double cap = ctx.attributes.GetReal("cap");
  MapElements<1>(ctx, [=]<typename T>(Vec<T> x) {
    const T c = static_cast<T>(cap);
    return Tanh<T>(x / c) * c;
  });
}

void SoftcapBackward(const CpuContext& ctx) {
  const double cap = ctx.attributes.GetReal("cap");
  MapElements<2>(ctx, [=]<typename T>(Vec<T> x, Vec<T> dy) {
    const Vec<T> t = Tanh<T>(x / static_cast<T>(cap));
    return dy * (1 - t * t);
  });
}

template <typename T>
Vec<T> SiluSlope(Vec<T> x, Vec<T> s) {
  return s * (1 + x * (1 - s));
}

// 2u = kSlope · x + kCubic · x³.
constexpr double kSlope = 1.59576912160573071176;  // 2 · √(2/π)
constexpr double kCubic = kSlope * 0.044715;

template <typename T>
Vec<T> TwiceU(Vec<T> x) {
  return x * (x * x * static_cast<T>(kCubic) + static_cast<T>(kSlope));
}

template <bool kTanh, typename T>
Vec<T> GeluValue(Vec<T> x) {
  if constexpr (kTanh) {
    return x * Sigmoid<T>(TwiceU<T>(x));
  } else {
    return x * NormalDistribution<T>(x).cdf;
  }
}

template <typename T>
struct ValueAndSlope {
  Vec<T> value, slope;
};

template <bool kTanh, typename T>
ValueAndSlope<T> GeluValueAndSlope(Vec<T> x) {
  if constexpr (kTanh) {
    const Vec<T> s = Sigmoid<T>(TwiceU<T>(x));
    const Vec<T> slope = x * x * static_cast<T>(3 * kCubic) + static_cast<T>(kSlope);
    return {x * s, s + x * s * (1 - s) * slope};
  } else {
    const Normal<T> normal = NormalDistribution<T>(x);
    return {x * normal.cdf, normal.cdf + x * normal.density};
  }
}

// Calls body.template operator()<whether it is the tanh form>().
template <typename Body>
void DispatchGelu(const CpuContext& ctx, const Body& body) {
  ctx.attributes.GetWord("approximate") == "tanh" ? body.template operator()<true>()
                                                  : body.template operator()<false>();
}

void Gelu(const CpuContext& ctx) {
  DispatchGelu(ctx, [&]<bool kTanh>() {
    MapElements<1>(ctx, []<typename T>(Vec<T> x) { return GeluValue<kTanh, T>(x); });
  });
  StoreLargest(ctx);
}

void GeluBackward(const CpuContext& ctx) {
  DispatchGelu(ctx, [&]<bool kTanh>() {
    MapElements<2>(ctx, []<typename T>(Vec<T> x, Vec<T> dy) {
      return dy * GeluValueAndSlope<kTanh, T>(x).slope;
    });
  });
  StoreLargest(ctx);
}

template <bool kTanh, typename S>
void RunGeluWithBackward(const CpuContext& ctx) {
  using T = Compute<S>;
  const S *x = ctx.in<S>(0), *dy = ctx.in<S>(1);
  S *y = ctx.out<S>(0), *dx = ctx.out<S>(1);
  ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
    const Vec<T> d = Load<T>(dy + i, count);
    const ValueAndSlope<T> both = GeluValueAndSlope<kTanh, T>(Load<T>(x + i, count));
    if (y != nullptr) Store<T>(y + i, both.value, count);
    Store<T>(dx + i, d * both.slope, count);
  });
}

void GeluWithBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    DispatchGelu(ctx, [&]<bool kTanh>() { RunGeluWithBackward<kTanh, S>(ctx); });
    StoreLargest(ctx);
    if (!ctx.has_output(2)) return;
    const graph::Shape& x = ctx.in_shape(0);
    ColumnSums(ctx.out<S>(1), x.rows(), x.dim(-1), x.dim(-1), ctx.in<T>(2), ctx.out<T>(2),
               ctx.pool);
  });
}

// The activation of a gate. Value() is the activation, Slope() is the derivative of the activation,
// and Times(d) is the activation times d.
template <typename T>
struct SiluGate {
  explicit SiluGate(Vec<T> gate) : x(gate), s(Sigmoid<T>(gate)) {}
  Vec<T> Value() const { return x * s; }
  Vec<T> Slope() const { return SiluSlope<T>(x, s); }
  Vec<T> Times(Vec<T> d) const { return d * x * s; }
  Vec<T> x, s;
};

template <typename T>
struct GeluGate {
  explicit GeluGate(Vec<T> gate) : both(GeluValueAndSlope<true, T>(gate)) {}
  Vec<T> Value() const { return both.value; }
  Vec<T> Slope() const { return both.slope; }
  Vec<T> Times(Vec<T> d) const { return d * both.value; }
  ValueAndSlope<T> both;
};

// Computes y, or dgate_up, or both: the outputs of the op in this order.
template <template <typename> typename Gate, bool kForward, bool kBackward>
void RunGated(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const graph::Shape& shape = ctx.in_shape(0);
    const int64_t half = shape.dim(-1) / 2;
    const S *gate_up = ctx.in<S>(0), *all_dy = ctx.in<S>(1);
    S *all_y = ctx.out<S>(0), *dgate_up = ctx.out<S>(kForward ? 1 : 0);
    ctx.pool.ParallelFor(shape.rows(), RowGrain(half), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t gate = row * 2 * half, up = gate + half, y = row * half;
        ForVectors<T>(0, half, [=](int64_t i, auto count) {
          const Vec<T> v = Load<T>(gate_up + gate + i, count);
          const Vec<T> u = Load<T>(gate_up + up + i, count);
          const Gate<T> activation(v);
          Vec<T> d = {};
          if constexpr (kBackward) d = Load<T>(all_dy + y + i, count);
          if constexpr (kForward) Store<T>(all_y + y + i, activation.Value() * u, count);
          if constexpr (kBackward) {
            Store<T>(dgate_up + gate + i, d * u * activation.Slope(), count);
            Store<T>(dgate_up + up + i, activation.Times(d), count);
          }
        });
      }
    });
  });
  StoreLargest(ctx);
}

const CpuKernelRegistration kKernels[] = {
    ElementwiseKernel<1>("relu", []<typename T>(Vec<T> x) { return x <= 0 ? Vec<T>{} : x; }),
    ElementwiseKernel<2>("relu_backward",
                         []<typename T>(Vec<T> y, Vec<T> dy) { return y <= 0 ? Vec<T>{} : dy; }),
    CpuKernelRegistration({"leaky_relu", &LeakyRelu}),
    CpuKernelRegistration({"leaky_relu_backward", &LeakyReluBackward}),
    ElementwiseKernel<1>("sigmoid", []<typename T>(Vec<T> x) { return Sigmoid<T>(x); }),
    ElementwiseKernel<2>("sigmoid_backward",
                         []<typename T>(Vec<T> y, Vec<T> dy) { return dy * (y * (1 - y)); }),
    ElementwiseKernel<1>("tanh", []<typename T>(Vec<T> x) { return Tanh<T>(x); }),
    ElementwiseKernel<2>("tanh_backward",
                         []<typename T>(Vec<T> y, Vec<T> dy) { return dy * (1 - y * y); }),
    ElementwiseKernel<1>("silu", []<typename T>(Vec<T> x) { return x * Sigmoid<T>(x); }),
    ElementwiseKernel<2>(
        "silu_backward",
        []<typename T>(Vec<T> x, Vec<T> dy) { return dy * SiluSlope<T>(x, Sigmoid<T>(x)); }),
    CpuKernelRegistration({"gelu", &Gelu}),
    CpuKernelRegistration({"gelu_backward", &GeluBackward}),
    CpuKernelRegistration({"gelu_with_backward", &GeluWithBackward}),
    CpuKernelRegistration({"softcap", &Softcap}),
    CpuKernelRegistration({"softcap_backward", &SoftcapBackward}),
    CpuKernelRegistration({"swiglu", &RunGated<SiluGate, true, false>}),
    CpuKernelRegistration({"swiglu_backward", &RunGated<SiluGate, false, true>}),
    CpuKernelRegistration({"swiglu_with_backward", &RunGated<SiluGate, true, true>}),
    CpuKernelRegistration({"geglu", &RunGated<GeluGate, true, false>}),
    CpuKernelRegistration({"geglu_backward", &RunGated<GeluGate, false, true>}),
    CpuKernelRegistration({"geglu_with_backward", &RunGated<GeluGate, true, true>}),
};

}  // namespace
}  // namespace plimsoll::ops
