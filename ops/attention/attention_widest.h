// attention_backward of heads 136 to 256 wide on Hopper
// (ops/cuda/attention/attention_widest_hopper.cu): for which of them it is used, and its scratch
// memory, as functions of the shape.
#pragma once

#include <cstdint>

#include "ops/attention/attention_split.h"

namespace plimsoll::ops {

inline constexpr int64_t kWidestHead = 256;  // widest supported head

struct WidestAttention {
  WidestAttention(int64_t batch, int64_t sequence, int64_t heads)
      : tiles((sequence + 63) / 64), row_bytes(batch * heads * tiles * 64 * 2 * 4) {}

  int64_t Bytes() const { return row_bytes + (kCounters * 4 + 255) / 256 * 256; }

  static constexpr int64_t kCounters = 2;  // the next unit of dq, and of dk and dv

  int64_t tiles;      // of queries of a head
  int64_t row_bytes;  // lse and δ of each query, for each tile of a head
};

inline bool PrefersWidest(int64_t head) {
  return head > kHopperAttentionHead && head <= kWidestHead && head % 8 == 0;
}

}  // namespace plimsoll::ops
