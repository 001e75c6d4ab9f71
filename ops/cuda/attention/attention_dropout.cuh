// Dropout of attention's weights, with the draws that base/dropout_draws.h numbers.
//
// TileDraws: a thread of the tensor cores' 64 × 64 results (ResultPlace in ops/cuda/wgmma.cuh;
// mma.sync has the same layout in 16 × 8) needs four Philox blocks for its 32 values, and uses all
// their draws. AttentionKeep: the draw of a single score.
#pragma once

#include "base/dropout_draws.h"
#include "ops/cuda/philox.cuh"

namespace plimsoll::ops {

struct AttentionDropout {
  const int32_t* rng = nullptr;  // seed and micro-step; nullptr without dropout
  uint64_t stream = 0;
  uint32_t threshold = 0;  // draws below it are dropped
  float keep_scale = 1;
  int tiles = 0;       // number of tiles of 16 tokens in a sequence
  int heads = 0;       // heads of all ranks that share them; also set without dropout
  int first_head = 0;  // this rank's first head among them

  // The row number of the scores of batch row b and this rank's head h.
  __device__ int64_t Row(int64_t b, int h) const { return b * heads + (first_head + h); }

  // All threads have the same key; the shuffle tells the compiler so.
  __device__ uint2 Key() const {
    const uint2 key = PhiloxKey(rng);
    return make_uint2(__shfl_sync(~0u, key.x, 0), __shfl_sync(~0u, key.y, 0));
  }
};

// The number of the tile of 16 × 16 scores; `row`: AttentionDropout::Row.
__device__ inline uint64_t ScoreTile(const AttentionDropout& d, int64_t row, int query, int key) {
  return static_cast<uint64_t>((row * d.tiles + query / 16) * d.tiles + key / 16);
}

// The draws of kTiles adjacent tiles of 16 × 16 scores, for the values of this thread, numbered as
// in ResultPlace.
template <bool kKeysAreRows, int kTiles = 4>
struct TileDraws {
  // `tile`: the tile of the first 16 columns and this warp's 16 rows. The tile of the next columns
  // is `step` further: 1 if keys are columns, d.tiles if queries are.
  __device__ TileDraws(const AttentionDropout& d, uint2 key, uint64_t tile, int step) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const uint64_t first = (tile + static_cast<uint64_t>(j * step)) * 32;
      if constexpr (kKeysAreRows) {
        // The lane has one key (and the one eight further) and two queries. It makes one block, and
        // exchanges half of its draws with the lane that has the neighbouring key.
        const bool odd = lane / 4 % 2 != 0;
        const uint4 w = PhiloxBlock<kDropoutRounds>(
            key, d.stream, first + static_cast<uint64_t>((lane % 4 * 2 + odd) * 4 + lane / 8));
        const uint32_t got0 = __shfl_xor_sync(~0u, odd ? w.x : w.z, 4);
        const uint32_t got1 = __shfl_xor_sync(~0u, odd ? w.y : w.w, 4);
        words[j * 4] = odd ? got0 : w.x;
        words[j * 4 + 1] = odd ? got1 : w.y;
        words[j * 4 + 2] = odd ? w.z : got0;
        words[j * 4 + 3] = odd ? w.w : got1;
      } else {
        const uint4 w =
            PhiloxBlock<kDropoutRounds>(key, d.stream, first + static_cast<uint64_t>(lane));
        words[j * 4] = w.x, words[j * 4 + 1] = w.y;
        words[j * 4 + 2] = w.z, words[j * 4 + 3] = w.w;
      }
    }
  }

  // `high`: the threshold in the upper half-word, AttentionDropout::threshold << 16.
  __device__ bool Kept(int i, uint32_t high) const {
    const int upper = kKeysAreRows ? i / 2 % 2 : i / 4 % 2;
    const int further = kKeysAreRows ? i / 4 % 2 : i / 2 % 2;
    const uint32_t word = words[i / 8 * 4 + i % 2 * 2 + further];
    return (upper != 0 ? word : word << 16) >= high;
  }

  uint32_t words[4 * kTiles];
};

// The factor for a single weight: 0 or keep_scale. Scores of keys 2j and 2j + 1 share a Philox
// block, so request them one after another.
class AttentionKeep {
 public:
  __device__ explicit AttentionKeep(const AttentionDropout& dropout) : dropout_(dropout) {}

  __device__ float At(int64_t row, int64_t query, int64_t key) {
    const int q = static_cast<int>(query), k = static_cast<int>(key);
    const uint64_t block =
        ScoreTile(dropout_, row, q, k) * 32 + static_cast<uint64_t>(q % 8 * 4 + k % 8 / 2);
    if (block != block_) {
      block_ = block;
      words_ = PhiloxBlock<kDropoutRounds>(dropout_.rng, dropout_.stream, block);
    }
    const uint32_t first = q / 8 % 2 ? words_.y : words_.x;
    const uint32_t second = q / 8 % 2 ? words_.w : words_.z;
    const uint32_t word = k % 2 ? second : first;
    return (k / 8 % 2 ? word >> 16 : word & 0xFFFF) < dropout_.threshold ? 0.0f
                                                                         : dropout_.keep_scale;
  }

 private:
  AttentionDropout dropout_;
  uint64_t block_ = ~uint64_t{0};
  uint4 words_{};
};

}  // namespace plimsoll::ops
