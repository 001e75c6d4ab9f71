// Dropout within the kernels for attention's gradients on Hopper, for a 64 × 64 tile of weights P
// whose rows are keys, or queries. M is the mask of 0 and 1, c keep_scale:
//
//   dv = c·(P∘M)ᵀ·dout      dS = c·((P∘M)∘dP − P∘(δ/c))
//
// The mask is stored in the sign of P, which is never negative, so that it takes no registers. The
// factor c is applied at the end of dv, dq and dk. Without dropout, M and c are 1.
#pragma once

#include "ops/cuda/attention/attention_dropout.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

template <bool kDropout, bool kKeysAreRows = true>
class WeightDropper {
 public:
  __device__ explicit WeightDropper(const AttentionDropout& dropout) : dropout_(dropout) {
    if constexpr (kDropout) rng_ = dropout.Key();
  }

  // Marks dropped weights by the sign of P. `query` and `key`: the first of the tile's columns and
  // of this warp's 16 rows, or vice versa; `row`: AttentionDropout::Row. Draws for kAtOnce · 16
  // columns at a time: with more columns, more draws overlap, but need more registers.
  template <int kAtOnce>
  __device__ void Mark(float (&p)[32], int64_t row, int query, int key) const {
    if constexpr (kDropout) {
      uint64_t tile = ScoreTile(dropout_, row, query, key);
      const int step = kKeysAreRows ? dropout_.tiles : 1;
#pragma unroll
      for (int j = 0; j < 4; j += kAtOnce) {
        const TileDraws<kKeysAreRows, kAtOnce> draws(dropout_, rng_, tile, step);
#pragma unroll
        for (int i = 0; i < kAtOnce * 8; ++i) {
          float& weight = p[j * 8 + i];
          if (!draws.Kept(i, dropout_.threshold << 16)) weight = -weight;
          asm volatile("" : "+f"(weight));
        }
        tile += static_cast<uint64_t>(kAtOnce * step);
        asm volatile(""
                     : "+l"(tile));  // the code after this begins when the code before it has
                                     // ended
      }
    }
  }

  // Marks with draws that were made earlier, during the products of the tile.
  struct NoDraws {};
  using Draws = std::conditional_t<kDropout, TileDraws<kKeysAreRows>, NoDraws>;
  __device__ Draws Draw(int64_t row, int query, int key) const {
    if constexpr (kDropout) {
      return {dropout_, rng_, ScoreTile(dropout_, row, query, key),
              kKeysAreRows ? dropout_.tiles : 1};
    } else {
      return {};
    }
  }
  __device__ void Mark(float (&p)[32], const Draws& draws) const {
    if constexpr (kDropout) {
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        if (!draws.Kept(i, dropout_.threshold << 16)) p[i] = -p[i];
      }
    }
  }

  // Two marked weights in 16 bits, with dropped ones as zeros.
  template <typename T>
  __device__ static uint32_t Left(uint32_t two) {
    if constexpr (!kDropout) return two;
    using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const Two left = __hmax2_nan(reinterpret_cast<const Two&>(two), Two{});
    return reinterpret_cast<const uint32_t&>(left);
  }

  // Packs marked P, with dropped weights as zeros, as the left operand of another product.
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

  // dS / c from marked P. `delta`: δ / c.
  __device__ float Gradient(float p, float dp, float delta) const {
    if constexpr (kDropout) {
      asm volatile("" : "+f"(p));  // so that PackKept's maxima don't stay in registers until now
      return fmaf(Left(p), dp, -fabsf(p) * delta);
    } else {
      return p * (dp - delta);
    }
  }

 private:
  __device__ static float Left(float p) { return kDropout ? fmaxf(p, 0.0f) : p; }

  const AttentionDropout& dropout_;
  uint2 rng_{};
};

}  // namespace plimsoll::ops
