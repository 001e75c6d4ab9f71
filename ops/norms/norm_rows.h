// Computes y of a row from its statistics: the last step of norms, also when they are recomputed.
#pragma once

#include <cstdint>

#include "ops/norms/unit_offset.h"
#include "ops/simd.h"

namespace plimsoll::ops {

// y = (x − mean) · rstd · weight (+ bias, unless it is nullptr). y may be x.
template <typename S, typename T>
void LayerNormRow(const S* x, T mean, T rstd, const S* weight, const S* bias, int64_t width, S* y) {
  if (bias != nullptr) {
    ForVectors<T>(0, width, [&](int64_t i, auto count) {
      const Vec<T> normal = (Load<T>(x + i, count) - mean) * rstd;
      Store<T>(y + i, normal * Load<T>(weight + i, count) + Load<T>(bias + i, count), count);
    });
  } else {
    ForVectors<T>(0, width, [&](int64_t i, auto count) {
      const Vec<T> normal = (Load<T>(x + i, count) - mean) * rstd;
      Store<T>(y + i, normal * Load<T>(weight + i, count), count);
    });
  }
}

// The factors of an RMS norm: the weight, or 1 + weight (ops/norms/unit_offset.h).
template <bool kUnitOffset, typename T, typename S>
Vec<T> LoadWeight(const S* weight, int count) {
  const Vec<T> w = Load<T>(weight, count);
  if constexpr (kUnitOffset) {
    return w + 1;
  } else {
    return w;
  }
}

// Calls body.template operator()<whether the factor is 1 + weight>().
template <typename Body>
void DispatchUnitOffset(const graph::Attributes& attributes, const Body& body) {
  HasUnitOffset(attributes) ? body.template operator()<true>() : body.template operator()<false>();
}

// y = x · rstd · weight, or x · rstd · (1 + weight). y may be x.
template <bool kUnitOffset, typename S, typename T>
void RmsNormRow(const S* x, T rstd, const S* weight, int64_t width, S* y) {
  ForVectors<T>(0, width, [&](int64_t i, auto count) {
    const Vec<T> normal = Load<T>(x + i, count) * rstd;
    Store<T>(y + i, normal * LoadWeight<kUnitOffset, T>(weight + i, count), count);
  });
}

}  // namespace plimsoll::ops
