// attention_backward in one pass (ops/cuda/attention/attention_one_pass_hopper.cu): how its work is
// divided into units, for which problems it is used, and its scratch memory, as functions of the
// shape.
//
// A unit is a chunk of the queries of one head, with all keys that they see. The units of a
// key-value head add to its dk and dv in turn, starting with the last chunk: key block by key
// block, in float32, through scratch memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

inline constexpr int64_t kOnePassHead = 64;      // widest supported head
inline constexpr int64_t kOnePassQueries = 512;  // of a unit
inline constexpr int64_t kOnePassKeys = 128;     // of a key block
inline constexpr int64_t kOnePassStep = 64;      // queries at a time

struct OnePassAttention {
  OnePassAttention(int64_t batch, int64_t sequence, int64_t heads, int64_t kv_heads, bool causal)
      : chunks((sequence + kOnePassQueries - 1) / kOnePassQueries),
        tiles((sequence + kOnePassStep - 1) / kOnePassStep),
        blocks((sequence + kOnePassKeys - 1) / kOnePassKeys),
        shared_blocks(heads > kv_heads ? blocks
                      : chunks == 1    ? 0
                      : causal         ? (chunks - 1) * (kOnePassQueries / kOnePassKeys)
                                       : blocks),
        units(batch * heads * chunks),
        row_bytes(batch * heads * tiles * kOnePassStep * 2 * 4),
        sum_bytes(batch * kv_heads * shared_blocks * kOnePassKeys * 2 * kOnePassHead * 4),
        counters(1 + batch * kv_heads * shared_blocks * 2) {}

  int64_t Bytes() const { return row_bytes + sum_bytes + (counters * 4 + 255) / 256 * 256; }

  int64_t chunks, tiles, blocks;  // of a head
  int64_t shared_blocks;          // the first blocks, to which several units add
  int64_t units;
  int64_t row_bytes;  // lse and δ of each query, for each tile of a head
  int64_t sum_bytes;  // dk and dv of the shared blocks
  int64_t counters;   // next unit, and additions so far to each half of a shared block
};

// Few units leave most of a GPU idle, or end at very different times: then it is faster to divide
// the work more finely and compute the scores twice. (On an H200 of 132 multiprocessors: 192 units
// of 1,024 tokens 19 % faster in one pass, 192 of 256 tokens 37 % slower, 512 of 512 tokens 42 %
// faster.)
inline bool PrefersOnePass(const OnePassAttention& pass, int64_t head) {
  return head <= kOnePassHead && pass.units >= (pass.chunks > 1 ? 192 : 512);
}

}  // namespace plimsoll::ops
