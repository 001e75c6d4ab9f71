// Maps the elements of a dropout to random draws. A draw is 16 bits of a Philox stream of seven
// rounds: draw i is the lower half of word i / 2 if i is even, otherwise the upper half. An element
// is dropped if its draw is below a threshold.
//
//   element i of a tensor       draw i; i counts in the unsharded tensor, also if ranks shard it
//   a score of attention        draw ScoreDraw(…): the same on every device and for every tile size
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace plimsoll {

// The version of this map. Snapshots store it, since a run that continues with another map would
// drop other elements. Earlier versions had map 1, with 32 bits per draw and scores numbered by
// rows, and map 2, where each tensor rank numbered its own part of a shared tensor, and used keys
// of its own.
inline constexpr int64_t kDropoutMap = 3;

inline constexpr int64_t kDrawsOfBlock = 8;  // draws of a Philox block of four words

inline constexpr int kDropoutRounds = 7;

// The stream of a dropout op. `rng` and `key` are the op's input and attribute.
inline PhiloxStream DropoutStream(const int32_t rng[2], int64_t key) {
  return PhiloxStream(rng, key, kDropoutRounds);
}

// Dropout with probability p, rounded to a multiple of 2⁻¹⁶. Throws an InternalError unless 0 ≤ p <
// 1.
struct DropRule {
  explicit DropRule(double p);

  uint32_t threshold;  // draws below it drop their elements
  double keep_scale;   // factor for kept elements: 2¹⁶ / (2¹⁶ − threshold)
};

// Attention scores are numbered by tiles of 16 queries and 16 keys; the 256 draws of a tile are
// consecutive. In the tensor cores' result layout, a thread holds two rows of a tile, eight apart,
// and in them two pairs of neighbouring columns, also eight apart. So one thread holds the eight
// scores of a Philox block, queries {i, i + 8} and keys {2j, 2j + 1, 2j + 8, 2j + 9}, if queries
// are rows. If keys are rows, two neighbouring threads hold them.
inline constexpr int64_t kScoreTile = 16;
inline constexpr int64_t kDrawsOfScoreTile = kScoreTile * kScoreTile;

// The number of a score's tile. `row`: batch row · heads + head; `heads` counts the heads of all
// ranks.
constexpr uint64_t ScoreTileNumber(int64_t row, int64_t query, int64_t key, int64_t sequence) {
  const int64_t tiles = (sequence + kScoreTile - 1) / kScoreTile;
  return static_cast<uint64_t>((row * tiles + query / kScoreTile) * tiles + key / kScoreTile);
}

// The index of a score's draw within its tile.
constexpr int64_t DrawInScoreTile(int64_t query, int64_t key) {
  return query % 8 * 32 + key % 8 / 2 * 8 + key % 2 * 4 + query / 8 % 2 * 2 + key / 8 % 2;
}

constexpr uint64_t ScoreDraw(int64_t row, int64_t query, int64_t key, int64_t sequence) {
  return ScoreTileNumber(row, query, key, sequence) * kDrawsOfScoreTile +
         static_cast<uint64_t>(DrawInScoreTile(query, key));
}

}  // namespace plimsoll
