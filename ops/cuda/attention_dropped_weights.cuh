// Dropout within the kernels for attention's gradients on Hopper, for a 64 × 64 tile of weights P
// whose rows are keys, or queries. With Z, the factors 0 and keep_scale of the draws:
//
//   dv += (P∘Z)ᵀ·dout      dS = P∘(Z∘dP − δ)
//
// What was dropped is kept in the sign of P, which is never negative, so that no mask stays in
// registers; keep_scale waits for dv's end. Without dropout all of it is as if Z were 1.
#pragma once

#include "ops/cuda/attention_dropout.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

template <bool kDropout, bool kKeysAreRows = true>
class WeightDropper {
 public:
  __device__ explicit WeightDropper(const AttentionDropout& dropout) : dropout_(dropout) {
    if constexpr (kDropout) rng_ = dropout.Key();
  }

  // Marks what is dropped in P's signs. `query` and `key`: the first of the tile's columns and of
  // this warp's 16 rows, or the reverse; `row`: batch row · heads + head.
  __device__ void Mark(float (&p)[32], int64_t row, int query, int key) const {
    if constexpr (kDropout) {
      const uint64_t tile = ScoreTile(dropout_, row, query, key);
      const int step = kKeysAreRows ? dropout_.tiles : 1;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const TileDraws<kKeysAreRows, 1> draws(dropout_, rng_,
                                               tile + static_cast<uint64_t>(j * step), 0);
        draws.ForEachDropped(dropout_.Thresholds(), [&](int i) { p[j * 8 + i] = -p[j * 8 + i]; });
      }
    }
  }

  // What is left of marked P as the left operand of another product.
  template <typename T>
  __device__ void PackKept(const float (&p)[32], uint32_t (&to)[4][4]) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        to[k][i] = PackTwo<T>(Left(p[k * 8 + i * 2]), Left(p[k * 8 + i * 2 + 1]));
      }
    }
  }

  // dS, of marked P.
  __device__ float Gradient(float p, float dp, float delta) const {
    if constexpr (kDropout) {
      return fabsf(p) * fmaf(p > 0 ? dp : 0.0f, dropout_.keep_scale, -delta);
    } else {
      return p * (dp - delta);
    }
  }

  template <int kCount>
  __device__ void Scale(float (&dv)[kCount]) const {
    if constexpr (kDropout) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) dv[i] *= dropout_.keep_scale;
    }
  }

 private:
  __device__ static float Left(float p) { return kDropout ? fmaxf(p, 0.0f) : p; }

  const AttentionDropout& dropout_;
  uint2 rng_{};
};

}  // namespace plimsoll::ops
