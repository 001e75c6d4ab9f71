// Dropout of attention's weights, with the draws that ops/attention/attention.h specifies.
#pragma once

#include "ops/cuda/philox.cuh"

namespace plimsoll::ops {

struct AttentionDropout {
  const int32_t* rng = nullptr;  // nullptr: no dropout
  uint64_t stream = 0;
  uint32_t threshold = 0;  // words below it drop
  float keep_scale = 1;    // 1 / (1 − p)
};

// The factor for a weight: 0 or keep_scale. Neighbouring words belong to one Philox block: ask for
// them one after another.
class AttentionKeep {
 public:
  __device__ explicit AttentionKeep(const AttentionDropout& dropout) : dropout_(dropout) {}

  __device__ float At(uint64_t word) {
    if (word / 4 != block_) {
      block_ = word / 4;
      words_ = PhiloxBlock(dropout_.rng, dropout_.stream, block_);
    }
    const uint32_t low = word & 1 ? words_.y : words_.x;
    const uint32_t high = word & 1 ? words_.w : words_.z;
    return (word & 2 ? high : low) < dropout_.threshold ? 0.0f : dropout_.keep_scale;
  }

 private:
  AttentionDropout dropout_;
  uint64_t block_ = ~uint64_t{0};
  uint4 words_{};
};

}  // namespace plimsoll::ops
