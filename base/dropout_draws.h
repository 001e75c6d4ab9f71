// Which draw decides about which element in dropout. A draw is 16 bits of a Philox stream of seven
// rounds: draw i is the lower half of word i / 2 if i is even, otherwise the upper half. An element
// is dropped when its draw is below a threshold.
//
//   element i of a tensor       draw i; ranks that share the tensor count in the whole one
//   a score of attention        draw ScoreDraw(…): the same on every device and for every tile size
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace plimsoll {

// The number of this map. Snapshots name it, as a run that goes on by another map drops other
// elements. Earlier versions had map 1: 32 bits a draw, scores numbered by rows; and map 2, where
// tensor ranks numbered their own parts of what they share, and drew by keys of their own.
inline constexpr int64_t kDropoutMap = 3;

inline constexpr int64_t kDrawsOfBlock = 8;  // of a Philox block of four words

inline constexpr int kDropoutRounds = 7;

// `rng` and `key`: the op's input and attribute.
inline PhiloxStream DropoutStream(const int32_t rng[2], int64_t key) {
  return PhiloxStream(rng, key, kDropoutRounds);
}

// Dropout with probability p, rounded to a multiple of 2⁻¹⁶. 0 ≤ p < 1; otherwise an InternalError.
struct DropRule {
  explicit DropRule(double p);

  uint32_t threshold;  // draws below it drop
  double keep_scale;   // 2¹⁶ / (2¹⁶ − threshold): what kept elements are multiplied by
};

// Scores of attention are numbered by tiles of 16 queries and 16 keys, whose 256 draws follow one
// another. In the tensor cores' layout of results a thread has two rows of a tile, eight apart, and
// two neighbouring columns, twice, also eight apart. So the eight scores of a Philox block, queries
// {i, i + 8} and keys {2j, 2j + 1, 2j + 8, 2j + 9}, are in one thread when queries are rows, and in
// two neighbouring ones when keys are.
inline constexpr int64_t kScoreTile = 16;
inline constexpr int64_t kDrawsOfScoreTile = kScoreTile * kScoreTile;

// The number of a score's tile; `row`: batch row · heads + head, with the heads of all ranks.
constexpr uint64_t ScoreTileNumber(int64_t row, int64_t query, int64_t key, int64_t sequence) {
  const int64_t tiles = (sequence + kScoreTile - 1) / kScoreTile;
  return static_cast<uint64_t>((row * tiles + query / kScoreTile) * tiles + key / kScoreTile);
}

// The draw of a score within its tile.
constexpr int64_t DrawInScoreTile(int64_t query, int64_t key) {
  return query % 8 * 32 + key % 8 / 2 * 8 + key % 2 * 4 + query / 8 % 2 * 2 + key / 8 % 2;
}

constexpr uint64_t ScoreDraw(int64_t row, int64_t query, int64_t key, int64_t sequence) {
  return ScoreTileNumber(row, query, key, sequence) * kDrawsOfScoreTile +
         static_cast<uint64_t>(DrawInScoreTile(query, key));
}

}  // namespace plimsoll
