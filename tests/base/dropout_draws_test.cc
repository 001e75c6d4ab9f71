// The numbers of dropout's draws: each score of a tile has one of its 256, those of a block lie as
// the tensor cores' results do, and tiles of all rows follow one another.
#include "base/dropout_draws.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

TEST(DropRule, RoundsTheProbabilityToAMultipleOfADraws) {
  EXPECT_EQ(DropRule(0).threshold, 0u);
  EXPECT_EQ(DropRule(0).keep_scale, 1);
  EXPECT_EQ(DropRule(0.5).threshold, 0x8000u);
  EXPECT_EQ(DropRule(0.5).keep_scale, 2);
  EXPECT_EQ(DropRule(0.1).threshold, 6554u);  // 6553.6
  EXPECT_EQ(DropRule(0.1).keep_scale, 65536.0 / (65536 - 6554));
  EXPECT_EQ(DropRule(1e-9).threshold, 0u);
  EXPECT_EQ(DropRule(1 - 1e-12).threshold, 0xffffu);
  EXPECT_EQ(DropRule(1 - 1e-12).keep_scale, 65536);
  EXPECT_THROW(DropRule(1), InternalError);
  EXPECT_THROW(DropRule(-0.1), InternalError);
}

TEST(ScoreDraw, GivesEachScoreOfATileADrawOfItsOwn) {
  std::set<int64_t> draws;
  for (int64_t query = 0; query < kScoreTile; ++query) {
    for (int64_t key = 0; key < kScoreTile; ++key) draws.insert(DrawInScoreTile(query, key));
  }
  EXPECT_EQ(std::ssize(draws), kDrawsOfScoreTile);
  EXPECT_EQ(*draws.begin(), 0);
  EXPECT_EQ(*draws.rbegin(), kDrawsOfScoreTile - 1);
}

// Where queries are rows, lane l of a warp has rows l/4 and l/4 + 8 and columns 2(l%4), 2(l%4) + 1
// and both eight further: the scores of block l. Where keys are rows, the half of what the lane has
// belongs to block 4·(2(l%4) + o) + l/8, o = 0 and 1, and the other half of these blocks to the
// lane with the neighbouring key.
TEST(ScoreDraw, PutsABlockIntoOneThreadOfATensorCoresResult) {
  for (int64_t lane = 0; lane < 32; ++lane) {
    const int64_t row = lane / 4, column = lane % 4 * 2;
    std::set<int64_t> draws;
    for (const int64_t r : {row, row + 8}) {
      for (const int64_t c : {column, column + 1, column + 8, column + 9}) {
        draws.insert(DrawInScoreTile(/*query=*/r, /*key=*/c));
        const int64_t block = DrawInScoreTile(/*query=*/c, /*key=*/r) / kDrawsOfBlock;
        EXPECT_EQ(block, (column + c % 2) * 4 + lane / 8) << lane;
        const int64_t word = DrawInScoreTile(c, r) % kDrawsOfBlock / 2;
        EXPECT_EQ(word / 2, row % 2) << lane;  // words 2 and 3: the odd key's
      }
    }
    EXPECT_EQ(std::ssize(draws), kDrawsOfBlock);
    EXPECT_EQ(*draws.begin(), lane * kDrawsOfBlock);
    EXPECT_EQ(*draws.rbegin(), lane * kDrawsOfBlock + kDrawsOfBlock - 1);
  }
}

// The eight draws of a block, in order.
TEST(ScoreDraw, OrdersABlock) {
  const std::vector<std::pair<int64_t, int64_t>> scores = {{3, 4}, {3, 12}, {11, 4}, {11, 12},
                                                           {3, 5}, {3, 13}, {11, 5}, {11, 13}};
  const int64_t first = (3 * 4 + 4 / 2) * kDrawsOfBlock;
  for (int64_t i = 0; i < kDrawsOfBlock; ++i) {
    const auto [query, key] = scores[i];
    EXPECT_EQ(DrawInScoreTile(query, key), first + i);
  }
}

// No two scores of two rows share a draw, also where the sequence ends within a tile.
TEST(ScoreDraw, NumbersTheTilesOfAllRows) {
  constexpr int64_t kSequence = 37, kTiles = 3;
  std::set<uint64_t> draws;
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t query = 0; query < kSequence; ++query) {
      for (int64_t key = 0; key < kSequence; ++key) {
        draws.insert(ScoreDraw(row, query, key, kSequence));
      }
    }
  }
  EXPECT_EQ(std::ssize(draws), 2 * kSequence * kSequence);
  EXPECT_LT(*draws.rbegin(), 2u * kTiles * kTiles * kDrawsOfScoreTile);
  EXPECT_EQ(ScoreDraw(1, 16, 32, kSequence), ((1 * kTiles + 1) * kTiles + 2) * 256u);
  // Numbers of long sequences take more than 32 bits.
  EXPECT_EQ(ScoreDraw(4095, (1 << 20) - 16, (1 << 20) - 16, 1 << 20), (uint64_t{1} << 52) - 256);
}

}  // namespace
}  // namespace plimsoll
