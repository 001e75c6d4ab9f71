// The ways in which GPUs compute attention_backward, as functions of the shape: for which problems
// each way is used, how its work is divided, and its scratch memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

// cuDNN's way, for 16-bit tensors. On Hopper, our own kernels take heads up to 256 wide, and on
// other GPUs up to 128; they need almost no memory besides their tensors. Wider heads go to cuDNN,
// in parts:
//
// cuDNN's deterministic attention_backward keeps the gradients of all scores: 2·T² bytes for each
// head. So it runs on some sequences at a time, or for long sequences on some heads, and two parts
// run at the same time on two streams. The workspace then grows only with the number of tokens. (A
// single part that fills the GPU is no faster than two at a time: the memory-bound end of one
// overlaps the products of the other.)

// The widest head of this kernel. dk and dv of wider heads don't fit the registers of a warpgroup:
// WidestAttention takes them.
inline constexpr int64_t kHopperAttentionHead = 128;

// Whether heads of that width are computed by cuDNN where it may, and not by our own kernels for
// Hopper.
inline bool TakesCudnnBackward(int64_t head) { return head > kHopperAttentionHead; }

// The workspace of cuDNN 9.19 on a GPU of compute capability 9.0, determined at many shapes. It
// holds the gradients of scores, padded to cuDNN's tiles, a float for each query of a head, and,
// with grouped queries, dk and dv of each query head.
inline int64_t CudnnBackwardBytes(int64_t sequences, int64_t length, int64_t heads,
                                  int64_t kv_heads, int64_t head) {
  const int64_t scores = (length + 63) / 64 * 64 * ((length + 127) / 128 * 128);
  const int64_t shared = heads == kv_heads ? 0 : 4 * length * head;
  return sequences * heads * (2 * scores + 4 * length + shared) + 256;
}

struct AttentionSplit {
  int64_t sequences;   // the number of sequences in a part
  int64_t kv_heads;    // key-value heads in a part: all unless one sequence is too large
  int64_t lanes;       // the number of parts that run at the same time
  int64_t lane_bytes;  // the workspace of each lane
};

inline AttentionSplit SplitAttentionBackward(int64_t batch, int64_t length, int64_t heads,
                                             int64_t kv_heads, int64_t head) {
  constexpr int64_t kLanes = 2;
  // The limit of the workspace: five times the gradient of a layer's output in 16 bits, about as
  // much as a transformer's MLP needs in its backward pass. Saving less than a few megabytes isn't
  // worthwhile.
  const int64_t all = std::max<int64_t>(64 << 20, 20 * batch * length * heads * head);
  const int64_t group = heads / kv_heads;
  const auto bytes = [&](int64_t sequences, int64_t some_kv_heads) {
    return CudnnBackwardBytes(sequences, length, some_kv_heads * group, some_kv_heads, head);
  };
  // Divides `units` into equal parts of at most `most` units each; each lane gets the same number
  // of parts. Returns the size of a part.
  const auto part = [](int64_t units, int64_t most) {
    const int64_t parts = ((units + most - 1) / most + kLanes - 1) / kLanes * kLanes;
    return (units + parts - 1) / parts;
  };
  const int64_t lane = all / kLanes;
  AttentionSplit split{1, kv_heads, kLanes, 0};
  if (bytes(1, kv_heads) <= lane) {
    split.sequences = part(batch, lane / bytes(1, kv_heads));
  } else {
    split.kv_heads = part(kv_heads, std::max<int64_t>(1, lane / bytes(1, 1)));
  }
  const bool whole = split.sequences == batch && split.kv_heads == kv_heads;
  if (whole || bytes(split.sequences, split.kv_heads) > lane) split.lanes = 1;
  split.lane_bytes = (bytes(split.sequences, split.kv_heads) + 255) / 256 * 256;
  return split;
}

// The one-pass way, on Hopper (ops/cuda/attention/attention_one_pass_hopper.cu).
//
// A unit is a chunk of the queries of one head, with all keys that they see. The units of a
// key-value head add to its dk and dv in turn, starting with the last chunk: key block by key
// block, in float32, through scratch memory.

inline constexpr int64_t kOnePassHead = 64;      // widest supported head
inline constexpr int64_t kOnePassQueries = 512;  // the most queries in a unit
inline constexpr int64_t kOnePassKeys = 128;     // keys in a key block
inline constexpr int64_t kOnePassStep = 64;      // queries processed at a time
// A problem with fewer units of that many queries is divided into units of half as many: they keep
// more of a GPU busy, and end at less different times, but spend more time on sums of dk and dv.
// (On an H200 with 132 multiprocessors, causal, one sequence of 2,048 tokens: 48 such units are
// 33 % faster when halved, 128 are 3 % faster, 256 are 11 % slower.)
inline constexpr int64_t kOnePassManyUnits = 128;

struct OnePassAttention {
  OnePassAttention(int64_t batch, int64_t sequence, int64_t heads, int64_t kv_heads, bool causal)
      : long_units(batch * heads * ((sequence + kOnePassQueries - 1) / kOnePassQueries)),
        queries(long_units < kOnePassManyUnits ? kOnePassQueries / 2 : kOnePassQueries),
        chunks((sequence + queries - 1) / queries),
        tiles((sequence + kOnePassStep - 1) / kOnePassStep),
        blocks((sequence + kOnePassKeys - 1) / kOnePassKeys),
        shared_blocks(heads > kv_heads ? blocks
                      : chunks == 1    ? 0
                      : causal         ? (chunks - 1) * queries / kOnePassKeys
                                       : blocks),
        units(batch * heads * chunks),
        row_bytes(batch * heads * tiles * kOnePassStep * 2 * 4),
        sum_bytes(batch * kv_heads * shared_blocks * kOnePassKeys * 2 * kOnePassHead * 4),
        counters(1 + batch * kv_heads * shared_blocks * 2) {}

  int64_t Bytes() const { return row_bytes + sum_bytes + (counters * 4 + 255) / 256 * 256; }

  int64_t long_units;             // the number of units of kOnePassQueries
  int64_t queries;                // in a chunk
  int64_t chunks, tiles, blocks;  // numbers of chunks, key tiles and key blocks in a head
  int64_t shared_blocks;          // the first blocks, to which several units add
  int64_t units;
  int64_t row_bytes;  // lse and δ of each query, for each tile of each head
  int64_t sum_bytes;  // dk and dv of the key blocks to which several units add
  int64_t counters;   // the next unit, and the additions so far to each half of a shared block
};

// Whether one pass is faster than two kernels. Few units leave most of a GPU idle, or end at very
// different times: then it is faster to divide the work more finely and compute the scores twice.
// (On an H200 with 132 multiprocessors, causal: 48 units of 1,024 tokens are 12 % slower in one
// pass, 80 are 13 % faster, 160 23 %; 64 of 512 tokens are 5 % faster, 256 38 %.)
inline bool PrefersOnePass(const OnePassAttention& pass, int64_t head) {
  return head <= kOnePassHead && pass.long_units >= 56;
}

// The way by mma.sync (ops/cuda/attention/attention_mma_backward.cuh).
//
// A thread block has a block of keys, and the query heads that share them. If that makes few thread
// blocks, the query heads are divided into parts, which add to dk and dv of the same keys in turn,
// in float32, through scratch memory. (On an H200 the gradients of 14 query heads with 2 key-value
// heads take 154 in place of 298 µs for 4 sequences of 1,024 tokens, 835 in place of 922 for 32.)

inline constexpr int64_t kMmaHead = 256;  // widest supported head

struct MmaKeyParts {
  MmaKeyParts(int64_t batch, int64_t sequence, int64_t heads, int64_t kv_heads, int64_t head)
      : keys(head <= 64 ? 128 : 64),
        blocks(batch * kv_heads * ((sequence + keys - 1) / keys)),
        parts(std::clamp<int64_t>(kUnits / std::max<int64_t>(1, blocks), 1, heads / kv_heads)) {
    if (parts == 1) return;
    sum_bytes = blocks * keys * 2 * ((head + 63) / 64 * 64) * 4;
    counters = blocks;
  }

  // Scratch memory, besides δ.
  int64_t Bytes() const { return sum_bytes + (counters * 4 + 255) / 256 * 256; }

  static constexpr int64_t kUnits = 2048;  // enough that they end at about the same time

  int64_t keys;           // in a block
  int64_t blocks, parts;  // blocks of all heads, and parts of each
  int64_t sum_bytes = 0;  // dk and dv of all blocks
  int64_t counters = 0;   // the parts that have been added to each block
};

// The one-pass way for wide heads, on Hopper (ops/cuda/attention/attention_wide_hopper.cu).
//
// A unit is a block of keys with some of the heads that share them, and all queries of these heads
// that see the keys. The units of a head add to its dq in turn, in float32, through scratch memory;
// so do the units that have the same keys, to dk and dv. Units are taken in a fixed order: several
// key-value heads at a time, for these one part of the query heads after another, and for each part
// the key blocks. Scratch memory is reused, because only few heads are in progress at a time.

inline constexpr int64_t kWideHead = 128;  // widest supported head
inline constexpr int64_t kWideKeys = 128;  // keys in a block
inline constexpr int64_t kWideStep = 64;   // queries processed at a time
// The longest unit has this many tiles of queries, if a head has fewer tiles. Longer units end at
// more different times; shorter ones spend more time on sums of dk and dv.
inline constexpr int64_t kWideTiles = 32;
// Key-value heads at a time: enough that a unit need not wait for the sums of the previous part.
inline constexpr int64_t kWideKeyHeads = 4;

struct WideAttention {
  WideAttention(int64_t batch, int64_t sequence, int64_t heads, int64_t kv_heads, bool causal)
      : tiles((sequence + kWideStep - 1) / kWideStep),
        blocks((sequence + kWideKeys - 1) / kWideKeys),
        parts((heads / kv_heads * tiles + kWideTiles - 1) / std::max(kWideTiles, tiles)),
        part(heads / kv_heads / parts),
        units(batch * kv_heads * parts * blocks) {
    // As many units are in progress as there are multiprocessors. The number of parts in progress
    // depends on the longest units, which have twice the average length if attention is causal.
    constexpr int64_t kProcessors = 144, kMore = 3;
    const int64_t parts_at_once = (causal ? 2 : 1) * kProcessors / blocks + kMore;
    const int64_t most = (heads / kv_heads + parts - 1) / parts;
    head_places = std::min(batch * heads, parts_at_once * most);
    key_places =
        parts == 1 ? 0 : std::min(batch * kv_heads, parts_at_once / parts + 2 * kWideKeyHeads);
    row_bytes = batch * heads * tiles * kWideStep * 2 * 4;
    head_bytes = head_places * tiles * kWideStep * kWideHead * 4;
    key_bytes = key_places * blocks * kWideKeys * 2 * kWideHead * 4;
    counters = 1 + head_places * tiles + key_places * blocks * 2;
  }

  int64_t Bytes() const {
    return row_bytes + head_bytes + key_bytes + (counters * 4 + 255) / 256 * 256;
  }

  int64_t tiles, blocks;  // numbers of tiles of queries, and of blocks of keys, in a head
  int64_t parts;          // number of parts into which the heads that share keys are divided
  // number of heads in a part; if parts can't be equal, the last parts have one head more
  int64_t part;
  int64_t units;
  int64_t head_places;            // number of buffers for dq of a head
  int64_t key_places;             // number of buffers for dk and dv of a key-value head
  int64_t row_bytes;              // lse and δ of each query, for each tile of each head
  int64_t head_bytes, key_bytes;  // bytes of the buffers for sums
  int64_t counters;  // the next unit, and additions to each tile of dq and each half block of dk
                     // and dv
};

// Whether one pass is faster than two kernels. Few units leave most of a GPU idle. (On an H200, 96
// units of 1,024 tokens are 27 % faster in one pass than in two.) Units of the same keys wait for
// each other, so all must run at the same time; that limits their number.
inline constexpr int64_t kWideBlocks = 64;
inline bool PrefersWideOnePass(const WideAttention& wide, int64_t head) {
  constexpr int64_t kUnits = 96;
  return head > 64 && head <= kWideHead && wide.units >= kUnits && wide.blocks <= kWideBlocks;
}
// Whether that number of multiprocessors is enough, even if other work occupies some of them.
inline bool CanRunWideOnePass(const WideAttention& wide, int64_t processors) {
  return 2 * wide.blocks <= processors;
}

// The way for heads 136 to 256 wide, on Hopper (ops/cuda/attention/attention_widest_hopper.cu).

inline constexpr int64_t kWidestHead = 256;  // widest supported head

struct WidestAttention {
  WidestAttention(int64_t batch, int64_t sequence, int64_t heads)
      : tiles((sequence + 63) / 64), row_bytes(batch * heads * tiles * 64 * 2 * 4) {}

  int64_t Bytes() const { return row_bytes + (kCounters * 4 + 255) / 256 * 256; }

  static constexpr int64_t kCounters = 2;  // the next unit of dq, and the next unit of dk and dv

  int64_t tiles;      // tiles of queries in a head
  int64_t row_bytes;  // lse and δ of each query, for each tile of each head
};

inline bool PrefersWidest(int64_t head) {
  return head > kHopperAttentionHead && head <= kWidestHead && head % 8 == 0;
}

}  // namespace plimsoll::ops
