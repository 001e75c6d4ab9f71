// The front of combinations of options, against all combinations.
#include "memory/option_front.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace plimsoll::memory {
namespace {

// What a combination takes, as the header says it.
OptionPoint Take(const OptionProblem& problem, const std::vector<int>& options) {
  OptionPoint point;
  point.options = options;
  int64_t before = 0;
  for (size_t block = 0; block < options.size(); ++block) {
    if (options[block] < 0) continue;
    const OptionCost& option = problem.blocks[block][options[block]];
    point.seconds += option.seconds;
    point.peak = std::max(point.peak, before + option.need);
    before += option.kept;
  }
  return point;
}

// All combinations that begin with `options`.
void AddAll(const OptionProblem& problem, std::vector<int> options, std::vector<OptionPoint>& all) {
  const size_t block = options.size();
  if (block == problem.blocks.size()) return all.push_back(Take(problem, options));
  for (size_t i = 0; i < problem.blocks[block].size(); ++i) {
    std::vector<int> more = options;
    more.push_back(static_cast<int>(i));
    more.resize(block + static_cast<size_t>(problem.blocks[block][i].blocks), -1);
    AddAll(problem, std::move(more), all);
  }
}

std::vector<OptionPoint> All(const OptionProblem& problem) {
  std::vector<OptionPoint> all;
  AddAll(problem, {}, all);
  return all;
}

OptionProblem Random(unsigned seed, int blocks, bool chains = false) {
  std::mt19937 random(seed);
  OptionProblem problem;
  for (int block = 0; block < blocks; ++block) {
    std::vector<OptionCost>& options = problem.blocks.emplace_back();
    const int count = 2 + static_cast<int>(random() % 3);
    for (int i = 0; i < count; ++i) {
      OptionCost option;
      option.option = i;
      option.seconds = static_cast<double>(random() % 100);
      option.kept = static_cast<int64_t>(random() % 50);
      option.need = option.kept + static_cast<int64_t>(random() % 80);
      options.push_back(option);
    }
    for (int length = 2; chains && length <= 4 && block + length <= blocks; ++length) {
      OptionCost chain = options[random() % options.size()];
      chain.option = static_cast<int>(options.size());
      chain.blocks = length;
      chain.seconds += static_cast<double>(random() % 100) * length;
      chain.need += static_cast<int64_t>(random() % 60);
      options.push_back(chain);
    }
  }
  return problem;
}

class AllCombinations : public testing::TestWithParam<bool> {};

// Blocks of any kind, in any order; also in chains.
TEST_P(AllCombinations, HaveThisFront) {
  size_t of_chains = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const OptionProblem problem = Random(seed, 6, GetParam());
    const std::vector<OptionPoint> all = All(problem);
    const std::vector<OptionPoint> front = FrontOfOptions(problem, 1000);
    ASSERT_FALSE(front.empty());
    for (size_t i = 0; i < front.size(); ++i) {
      const OptionPoint taken = Take(problem, front[i].options);
      EXPECT_DOUBLE_EQ(front[i].seconds, taken.seconds);
      EXPECT_EQ(front[i].peak, taken.peak);
      of_chains += std::ranges::find(front[i].options, -1) != front[i].options.end();
      if (i == 0) continue;
      EXPECT_GT(front[i].seconds, front[i - 1].seconds);
      EXPECT_LT(front[i].peak, front[i - 1].peak);
    }
    for (const OptionPoint& point : all) {
      EXPECT_TRUE(std::ranges::any_of(front,
                                      [&](const OptionPoint& best) {
                                        return best.peak <= point.peak &&
                                               best.seconds <= point.seconds + 1e-9;
                                      }))
          << "seed " << seed;
    }
  }
  EXPECT_EQ(of_chains > 40, GetParam());
}

INSTANTIATE_TEST_SUITE_P(OptionFront, AllCombinations, testing::Bool());

TEST(OptionFront, KeepsTheFastestAndTheSmallestWhenThinned) {
  const OptionProblem problem = Random(3, 12);
  const std::vector<OptionPoint> whole = FrontOfOptions(problem, 1000),
                                 few = FrontOfOptions(problem, 4);
  ASSERT_GT(whole.size(), 6u);
  EXPECT_LE(few.size(), 5u);
  EXPECT_EQ(few.front().options, whole.front().options);
  EXPECT_EQ(few.back().options, whole.back().options);
}

// Blocks of one second forward and two backward. Each keeps 10 bytes, or copies them for `seconds`.
OptionProblem Copying(int blocks, double seconds) {
  OptionProblem problem;
  for (int block = 0; block < blocks; ++block) {
    problem.blocks.push_back({{.option = 0, .kept = 10, .need = 10},
                              {.option = 1, .need = 10, .arriving = 10, .copy_seconds = seconds}});
    problem.times.push_back({1.0, 2.0});
  }
  return problem;
}

std::vector<int> BlocksThatCopy(const OptionPoint& point) {
  std::vector<int> blocks;
  for (size_t block = 0; block < point.options.size(); ++block) {
    if (point.options[block] == 1) blocks.push_back(static_cast<int>(block));
  }
  return blocks;
}

TEST(OptionFront, BlocksThatCopyWithoutWaitingLieApart) {
  const std::vector<OptionPoint> front = FrontOfOptions(Copying(12, 1.8), 1000);
  const OptionPoint* smallest = nullptr;  // of those that wait for nothing
  for (const OptionPoint& point : front) {
    if (point.seconds == 0) smallest = &point;
  }
  ASSERT_NE(smallest, nullptr);
  const std::vector<int> blocks = BlocksThatCopy(*smallest);
  ASSERT_GE(blocks.size(), 4u);
  for (size_t i = 1; i < blocks.size(); ++i) EXPECT_GE(blocks[i] - blocks[i - 1], 2);
  EXPECT_LT(front.back().peak, smallest->peak);  // with waiting
}

// The last block's copy has nothing to run beside, there and back.
TEST(OptionFront, TheLastBlocksCopyIsWaitedForTwice) {
  OptionProblem problem = Copying(1, 1.0);
  problem.blocks[0].erase(problem.blocks[0].begin());
  EXPECT_DOUBLE_EQ(FrontOfOptions(problem, 10).front().seconds, 2);
  problem.head_seconds = 3;
  EXPECT_DOUBLE_EQ(FrontOfOptions(problem, 10).front().seconds, 1);
}

// A copy that is on its way when the forward pass ends has freed nothing.
TEST(OptionFront, WhatIsInFlightAtTheHeadIsNotSaved) {
  OptionProblem problem = Copying(8, 3.0);
  problem.copy_slack = 2;
  for (const OptionPoint& point : FrontOfOptions(problem, 1000)) {
    int64_t peak = 0, before = 0;
    for (int block = 0; block < 8; ++block) {
      peak = std::max(peak, before + 10);
      const bool away = point.options[block] == 1 && 7 - block >= 6;
      before += away ? 0 : 10;
    }
    EXPECT_GE(point.peak, peak);
  }
}

// A chain that holds little next to copies: blocks that copy are as far from one another as their
// distance says, whatever covers the blocks between.
TEST(OptionFront, ChainsLieBetweenBlocksThatCopy) {
  OptionProblem problem = Copying(12, 1.8);
  for (int block = 0; block + 2 <= 12; ++block) {
    problem.blocks[block].push_back(
        {.option = 2, .blocks = 2, .seconds = 0.01, .kept = 10, .need = 25});
  }
  bool both = false;
  for (const OptionPoint& point : FrontOfOptions(problem, 1000)) {
    double chains = 0;
    int last = -2;
    for (int block = 0; block < 12; ++block) {
      chains += point.options[block] == 2 ? 0.01 : 0;
      if (point.options[block] != 1) continue;
      if (point.seconds < chains + 0.5) {
        EXPECT_GE(block - last, 2);
      }
      last = block;
    }
    both = both || (chains > 0 && last >= 0);
  }
  EXPECT_TRUE(both);
}

TEST(OptionFront, CopiesSlowDownWhatRunsBesideThem) {
  OptionProblem problem = Copying(8, 1.0);
  problem.copies_slow = 0.25;
  for (const OptionPoint& point : FrontOfOptions(problem, 1000)) {
    EXPECT_GE(point.seconds, 0.5 * static_cast<double>(BlocksThatCopy(point).size()));
  }
}

}  // namespace
}  // namespace plimsoll::memory
