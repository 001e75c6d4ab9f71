// attention_backward of wide heads in one pass (ops/cuda/attention/attention_wide_hopper.cu): how
// its work is divided into units, for which problems it is used, and its scratch memory, as
// functions of the shape.
//
// A unit is a block of keys with some of the heads that share them, and all queries of these heads
// that see the keys. The units of a head add to its dq in turn, in float32, through scratch memory;
// so do the units that have the same keys, to dk and dv. Units are taken in a fixed order: several
// key-value heads at a time, of these one part of the heads after another, of each part the key
// blocks. Places in scratch memory are used again, as few heads are under way at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

inline constexpr int64_t kWideHead = 128;  // widest supported head
inline constexpr int64_t kWideKeys = 128;  // of a block
inline constexpr int64_t kWideStep = 64;   // queries at a time
// Tiles of queries of the longest unit, if a head has fewer. Longer units end at more different
// times, shorter ones spend more time on sums of dk and dv.
inline constexpr int64_t kWideTiles = 32;
// Key-value heads at a time: when a unit needs the sums of the part before, these have long been
// there.
inline constexpr int64_t kWideKeyHeads = 4;

struct WideAttention {
  WideAttention(int64_t batch, int64_t sequence, int64_t heads, int64_t kv_heads, bool causal)
      : tiles((sequence + kWideStep - 1) / kWideStep),
        blocks((sequence + kWideKeys - 1) / kWideKeys),
        parts((heads / kv_heads * tiles + kWideTiles - 1) / std::max(kWideTiles, tiles)),
        part(heads / kv_heads / parts),
        units(batch * kv_heads * parts * blocks) {
    // Under way are as many units as there are multiprocessors. How many parts that is depends on
    // the longest units, twice the average of causal ones.
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

  int64_t tiles, blocks;  // of a head: of queries, of keys
  int64_t parts;          // of the heads that share keys
  int64_t part;           // heads of a part, but one more of the last ones if they can't be equal
  int64_t units;
  int64_t head_places;            // for dq of a head
  int64_t key_places;             // for dk and dv of a key-value head
  int64_t row_bytes;              // lse and δ of each query, for each tile of a head
  int64_t head_bytes, key_bytes;  // sums
  int64_t counters;  // next unit, and additions to each tile of dq and each half block of dk and dv
};

// Few units leave most of a GPU idle. (On an H200, 96 units of 1,024 tokens are 27 % faster in one
// pass than in two.) Units of the same keys, which wait for each other, must all be under way;
// that limits their number.
inline bool PrefersWideOnePass(const WideAttention& wide, int64_t head) {
  constexpr int64_t kUnits = 96, kBlocks = 64;
  return head > 64 && head <= kWideHead && wide.units >= kUnits && wide.blocks <= kBlocks;
}
// Whether so many multiprocessors are enough, some of them being busy with something else.
inline bool CanRunWideOnePass(const WideAttention& wide, int64_t processors) {
  return 2 * wide.blocks <= processors;
}

}  // namespace plimsoll::ops
