// sigmoid:   y = 1 / (1 + e^−x),   dx = dy · y · (1 − y).
// tanh:      y = 1 − 2 / (1 + e^2x),   dx = dy · (1 − y²).
// Threads share chunks of elements. Bytes: forward 2·n·s, backward 3·n·s.
#include <cmath>
#include <type_traits>

#include "ops/elementwise/cpu_elementwise.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// Float: the difference loses the digits of a small x, so tanh(x) / x for |x| < 0.6 is a polynomial
// in x² that interpolates it at Chebyshev nodes (relative error 2e-8, without rounding).
template <typename T>
Vec<T> HyperbolicTangent(Vec<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return EachLane<double>(x, [](double v) { return std::tanh(v); });
  } else {
    const Vec<float> size = x < 0 ? -x : x;
    const Vec<float> z = x * x;
    Vec<float> p = z * -0.00626911968f + 0.0211109594f;
    p = p * z - 0.0538739488f;
    p = p * z + 0.133329153f;
    p = p * z - 0.333333313f;
    const Vec<float> far = 1 - 2 / (1 + Exp<float>(size + size));
    return size < 0.6f ? x + x * (p * z) : x < 0 ? -far : far;
  }
}

void SigmoidForward(const CpuContext& ctx) {
  MapElements<1>(ctx, []<typename T>(Vec<T> x) { return Sigmoid<T>(x); });
}

void SigmoidBackward(const CpuContext& ctx) {
  MapElements<2>(ctx, []<typename T>(Vec<T> y, Vec<T> dy) { return dy * (y * (1 - y)); });
}

void TanhForward(const CpuContext& ctx) {
  MapElements<1>(ctx, []<typename T>(Vec<T> x) { return HyperbolicTangent<T>(x); });
}

void TanhBackward(const CpuContext& ctx) {
  MapElements<2>(ctx, []<typename T>(Vec<T> y, Vec<T> dy) { return dy * (1 - y * y); });
}

const CpuKernelRegistration kSigmoid({"sigmoid", &SigmoidForward});
const CpuKernelRegistration kSigmoidBackward({"sigmoid_backward", &SigmoidBackward});
const CpuKernelRegistration kTanh({"tanh", &TanhForward});
const CpuKernelRegistration kTanhBackward({"tanh_backward", &TanhBackward});

}  // namespace
}  // namespace plimsoll::ops
