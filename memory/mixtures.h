// Mixtures: which option each block of a program takes, and what that costs by addition.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/thread_pool.h"
#include "memory/block_options.h"
#include "memory/block_profile.h"

namespace plimsoll::memory {

// One option for each kind of block.
using Level = std::vector<const BlockOption*>;

// With blocks of one kind, each option is a level. With several kinds, a level belongs to a price
// per byte: every kind takes the option that is cheapest at that price. Sorted by kept bytes.
std::vector<Level> Levels(const std::vector<std::vector<BlockOption>>& by_kind);

// What mixtures are made of.
struct MixtureParts {
  int blocks = 0;
  double seconds = 0;  // of the step that keeps everything
  std::vector<std::vector<BlockOption>> by_kind;
  std::vector<Level> levels;
  std::vector<UniformProfile> profiles;  // by level
  // The options outside the blocks. Without blocks, that is everything.
  std::vector<BlockOption> sides;
  std::vector<std::vector<std::vector<int64_t>>> extra;  // by side, as MixtureSums take it
  std::vector<double> side_seconds;
};

// `count` blocks, evenly among the others, take `level`.
struct Spread {
  const Level* level = nullptr;
  int count = 0;
};

// A mixture of levels, some blocks with an option of their own, and the option `side` outside the
// blocks.
struct Mixture {
  Mix mix;
  int side = 0;
  Spread spread = {};
  int64_t peak = 0;

  int LevelOf(int block, int blocks) const {
    if (block < mix.split) return mix.low;
    if (block == blocks - 1) return mix.last;
    return block == mix.split ? mix.odd : mix.high;
  }
};

// By seconds; each has a lower peak than all faster ones.
using MixtureFront = std::map<double, Mixture>;

void AddToFront(MixtureFront& front, double seconds, const Mixture& mixture);

// Adds the mixtures without a spread whose side is `first_side` or a later one.
void AddPlainMixtures(const MixtureParts& parts, int first_side, ThreadPool& pool,
                      MixtureFront& front);

}  // namespace plimsoll::memory
