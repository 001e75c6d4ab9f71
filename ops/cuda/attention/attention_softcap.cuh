// A soft cap c of attention's scores (ops/attention/attention.h) in kernels: products s of queries
// and keys become (c / scale) · tanh(s · scale / c) before masking. Multiplied by the scale, that
// is the capped score. So nothing else of a kernel changes except dS, which gets the factor 1 −
// tanh².
//
// The last parameter of kernels has one of these types. With NoSoftcap, which is empty, kernels
// have no code for a cap.
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

  // 1 − tanh² of the score that has this weight before dropout; `lse` is in units of log 2. It is
  // computed from the weight, so that scores need not be kept. A weight of 0 gives 0.
  __device__ float Slope(float weight, float lse) const {
    float log2;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log2) : "f"(weight));
    const float t = fminf(fmaxf((log2 + lse) * of_log, -1.0f), 1.0f);
    return fmaf(-t, t, 1.0f);
  }

  // The capped score and its slope, from a score that is already scaled, in float32's precision.
  __device__ float Score(float score, float& slope) const {
    const float t = tanhf(score / cap);
    slope = fmaf(-t, t, 1.0f);
    return cap * t;
  }

  float cap = 0;  // the soft cap; 0 means no cap
  float in = 0, out = 0, of_log = 0;
};

// The cap of a call whose scores have this scale.
inline ScoreSoftcap SoftcapOf(const graph::Attributes& attributes, float scale) {
  const auto cap = static_cast<float>(AttentionSoftcap(attributes));
  return cap > 0 ? ScoreSoftcap(cap, scale) : ScoreSoftcap();
}

// Calls body(softcap or NoSoftcap()).
template <typename Body>
void DispatchSoftcap(const ScoreSoftcap& softcap, const Body& body) {
  softcap.caps() ? body(softcap) : body(NoSoftcap());
}

// Caps products in registers; does nothing without a cap.
template <typename Softcap, int N>
__device__ void CapProducts(const Softcap& softcap, float (&s)[N]) {
  if constexpr (Softcap::kCaps) {
#pragma unroll
    for (int i = 0; i < N; ++i) s[i] = softcap.Product(s[i]);
  }
}

// Calls body.template operator()<kDropout, kRanges>(softcap) always with kRanges: the kernels for
// ranges also handle calls without ranges, which halves the number of kernels.
template <typename Body>
void DispatchCapped(bool drops, const ScoreSoftcap& softcap, const Body& body) {
  drops ? body.template operator()<true, true>(softcap)
        : body.template operator()<false, true>(softcap);
}

}  // namespace plimsoll::ops
