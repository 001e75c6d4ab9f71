// A soft cap c of attention's scores (ops/attention/attention.h) in kernels: products s of queries
// and keys become (c / scale) · tanh(s · scale / c) before any is masked. Times the scale that is
// the capped score, so that nothing else of a kernel changes but dS, which gets the factor 1 −
// tanh².
//
// Kernels have a parameter of one of these types, the last one: with NoSoftcap, which is empty,
// they have no code for any of this, and their other parameters keep their places.
#pragma once

#include <cmath>

#include "ops/attention/attention.h"
#include "ops/cuda/exp2.cuh"

namespace plimsoll::ops {

struct NoSoftcap {
  static constexpr bool kCaps = false;
};

struct ScoreSoftcap {
  static constexpr bool kCaps = true;

  ScoreSoftcap() = default;
  ScoreSoftcap(float of_scores, float scale)
      : cap(of_scores),
        in(2 * kLog2E * scale / of_scores),
        out(of_scores / scale),
        of_log(1 / (of_scores * kLog2E)) {}

  bool caps() const { return cap > 0; }

  // The capped product. tanh(x) = 1 − 2 / (1 + e^2x) has an absolute error of about 1e-7.
  __device__ float Product(float s) const {
    return fmaf(-2 * out, __fdividef(1.0f, 1.0f + Exp2(s * in)), out);
  }

  // 1 − tanh² of the score with that weight before dropout; `lse` is in units of log 2. The weight
  // says what tanh was, so that scores need not be kept. A weight of 0 gets 0.
  __device__ float Slope(float weight, float lse) const {
    float log2;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log2) : "f"(weight));
    const float t = fminf(fmaxf((log2 + lse) * of_log, -1.0f), 1.0f);
    return fmaf(-t, t, 1.0f);
  }

  // In float32's precision, of a score that is scaled already: the capped score and its slope.
  __device__ float Score(float score, float& slope) const {
    const float t = tanhf(score / cap);
    slope = fmaf(-t, t, 1.0f);
    return cap * t;
  }

  float cap = 0;  // 0: none
  float in = 0, out = 0, of_log = 0;
};

// The cap of a call whose scores have that scale.
inline ScoreSoftcap SoftcapOf(const graph::Attributes& attributes, float scale) {
  const auto cap = static_cast<float>(AttentionSoftcap(attributes));
  return cap > 0 ? ScoreSoftcap(cap, scale) : ScoreSoftcap();
}

// Calls body(softcap or NoSoftcap()).
template <typename Body>
void DispatchSoftcap(const ScoreSoftcap& softcap, const Body& body) {
  softcap.caps() ? body(softcap) : body(NoSoftcap());
}

// Caps products in registers; nothing without a cap.
template <typename Softcap, int N>
__device__ void CapProducts(const Softcap& softcap, float (&s)[N]) {
  if constexpr (Softcap::kCaps) {
#pragma unroll
    for (int i = 0; i < N; ++i) s[i] = softcap.Product(s[i]);
  }
}

// Calls body.template operator()<kDropout, kRanges>(softcap) with kRanges: the kernels for ranges
// also serve calls without any, and there need not be twice as many.
template <typename Body>
void DispatchCapped(bool drops, const ScoreSoftcap& softcap, const Body& body) {
  drops ? body.template operator()<true, true>(softcap)
        : body.template operator()<false, true>(softcap);
}

}  // namespace plimsoll::ops
