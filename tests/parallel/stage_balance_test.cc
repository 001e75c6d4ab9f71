#include "parallel/stage_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace plimsoll::parallel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StageBalance, SharesEqualBlocksEqually) {
  EXPECT_THAT(BalanceStages({.blocks = std::vector<double>(12, 1)}, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(BalanceStages({.blocks = std::vector<double>(3, 1)}, 3), ElementsAre(1, 1, 1));
}

// Early stages have the most micro-batches in flight.
TEST(StageBalance, GivesWhatIsLeftToLateStages) {
  EXPECT_THAT(BalanceStages({.blocks = std::vector<double>(5, 1)}, 2), ElementsAre(2, 3));
}

// A head of 2.6 blocks, as GPT-2 1558M has.
TEST(StageBalance, CountsWhatIsOutsideOfBlocks) {
  EXPECT_THAT(BalanceStages({.blocks = std::vector<double>(48, 1), .before = 0, .after = 2.6}, 4),
              ElementsAre(12, 13, 13, 10));
  EXPECT_THAT(BalanceStages({.blocks = {1, 1, 1, 1}, .before = 2, .after = 0}, 2),
              ElementsAre(1, 3));
}

TEST(StageBalance, NeedsABlockForEachStage) {
  EXPECT_THAT(BalanceStages({.blocks = {1, 1}}, 3), IsEmpty());
}

// Those that have no room for more leave blocks to the others.
TEST(StageBalance, KeepsToTheMostBlocksOfAStage) {
  const ModelCosts costs = {.blocks = std::vector<double>(6, 1), .after = 1};
  EXPECT_THAT(BalanceStages(costs, 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(BalanceStages(costs, 3, std::vector<int64_t>{1, 6, 6}), ElementsAre(1, 3, 2));
  EXPECT_THAT(BalanceStages(costs, 3, std::vector<int64_t>{1, 2, 3}), ElementsAre(1, 2, 3));
  EXPECT_THAT(BalanceStages(costs, 3, std::vector<int64_t>{1, 2, 2}), IsEmpty());
  EXPECT_THAT(BalanceStages(costs, 3, std::vector<int64_t>{0, 6, 6}), IsEmpty());
}

// As good as the best of all divisions.
TEST(StageBalance, IsAsGoodAsTheBest) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    ModelCosts costs;
    for (size_t i = 0; i < 3 + random() % 6; ++i) {
      costs.blocks.push_back(1 + static_cast<double>(random() % 9));
    }
    costs.before = static_cast<double>(random() % 5);
    costs.after = static_cast<double>(random() % 12);
    const auto count = static_cast<int64_t>(costs.blocks.size());
    const int64_t stages = 1 + static_cast<int64_t>(random() % 4) % count;
    double best = std::numeric_limits<double>::infinity();
    std::vector<int64_t> blocks;
    const std::function<void(int64_t)> divide = [&](int64_t left) {
      if (std::ssize(blocks) + 1 == stages) {
        blocks.push_back(left);
        best = std::min(best, std::ranges::max(StageCosts(costs, blocks)));
        blocks.pop_back();
        return;
      }
      for (int64_t some = 1; left - some >= stages - std::ssize(blocks) - 1; ++some) {
        blocks.push_back(some);
        divide(left - some);
        blocks.pop_back();
      }
    };
    divide(count);
    EXPECT_EQ(std::ranges::max(StageCosts(costs, BalanceStages(costs, stages))), best);
  }
}

}  // namespace
}  // namespace plimsoll::parallel
