// What chains of blocks take, added up, against programs that have them.
#include "memory/block_chains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "memory/block_shapes.h"
#include "tests/memory/solver_programs.h"

namespace plimsoll::memory {
namespace {

class BlockChainsOf : public testing::TestWithParam<Kind> {};

// A chain at any place, all other blocks keeping everything: of any length where it keeps no more
// than its last output, and of two blocks whatever they keep. What else is predicted is an
// estimate.
TEST_P(BlockChainsOf, NeedAndTakeWhatTheirProgramsDo) {
  constexpr int kBlocks = 9;
  const Variant variant = VariantOf(Train(GetParam(), kBlocks));
  const CostModel cost;
  ThreadPool pool(2);
  const SolverOptions options = {.pool = &pool};
  const KeptUse keep = MeasureKept(variant, options.plan.alignment, cost);
  const BlockShapes shapes(variant, keep, cost, options);
  std::vector<int64_t> before = {0};  // what the blocks before each one keep
  std::vector<int64_t> own = keep.programs[0].peaks;
  for (int block = 0; block < kBlocks; ++block) {
    before.push_back(before.back() + shapes.AllBytes(block));
    own[ForwardRegion(block)] -= before[block];
    own[BackwardRegion(kBlocks, block)] -= before[block];
  }
  own[HeadRegion(kBlocks)] -= before[kBlocks];
  size_t longest = 0, count = 0;
  for (int first = 0; first < kBlocks; ++first) {
    for (const BlockChains::Chain& chain : shapes.chains().From(first)) {
      longest = std::max(longest, static_cast<size_t>(chain.blocks));
      if (chain.level > 0 && chain.blocks > 2) continue;
      Fates fates = variant.KeepAll();
      const std::vector<std::vector<int>> segments = DecisionsByBlock(variant);
      for (int block = first; block < chain.end(); ++block) {
        const Fates& of_block = shapes.chains().FatesOf(chain, block);
        for (size_t i = 0; i < of_block.size(); ++i) fates[segments[block][i]] = of_block[i];
      }
      const StepUse use = MeasureStep(variant.build(fates), kBlocks, options.plan.alignment, cost);
      const std::vector<int64_t>& peaks = use.programs[0].peaks;
      int64_t need = first == 0 ? std::max(peaks[0], peaks[UpdateRegion(kBlocks)]) : 0;
      if (chain.end() == kBlocks) need = peaks[HeadRegion(kBlocks)] - before[first];
      for (int block = first; block < chain.end(); ++block) {
        need = std::max({need, peaks[ForwardRegion(block)] - before[first],
                         peaks[BackwardRegion(kBlocks, block)] - before[first]});
      }
      EXPECT_NEAR(static_cast<double>(shapes.chains().Need(chain, 0, own)),
                  static_cast<double>(need), 0.01 * static_cast<double>(need))
          << first << ", " << chain.blocks << " blocks, level " << chain.level;
      EXPECT_NEAR(shapes.chains().Seconds(chain), use.work() - keep.work(), 1e-3 * keep.work());
      ++count;
    }
  }
  EXPECT_EQ(longest, 8u);
  EXPECT_GT(count, 50u);
}

INSTANTIATE_TEST_SUITE_P(Programs, BlockChainsOf,
                         testing::Values(Kind::kFeedForward, Kind::kAttention, Kind::kMixed));

// The last block's output has no next block, so no chain of one block exists, and none goes beyond.
TEST(BlockChains, EndWithTheLastBlock) {
  const Variant variant = VariantOf(Train(Kind::kAttention, 5));
  const CostModel cost;
  ThreadPool pool(1);
  const SolverOptions options = {.pool = &pool};
  const KeptUse keep = MeasureKept(variant, options.plan.alignment, cost);
  const BlockShapes shapes(variant, keep, cost, options);
  for (int first = 0; first < 5; ++first) {
    for (const BlockChains::Chain& chain : shapes.chains().From(first)) {
      EXPECT_EQ(chain.first, first);
      EXPECT_GE(chain.blocks, 2);
      EXPECT_LE(chain.end(), 5);
    }
  }
  EXPECT_FALSE(shapes.chains().From(3).empty());
  EXPECT_TRUE(shapes.chains().From(4).empty());
}

}  // namespace
}  // namespace plimsoll::memory
