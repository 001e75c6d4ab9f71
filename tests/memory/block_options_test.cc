// The options of one block, on chains with given seconds and bytes.
#include "memory/block_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/elementwise/activations.h"

namespace plimsoll::memory {
namespace {

using graph::Builder;
using graph::DType;
using graph::Program;
using graph::Retention;
using graph::Scope;

// x → 0 → 1 → … in the forward pass; the nodes from `second_block` on belong to block 1, those from
// `third_block` on to block 2.
class Chain {
 public:
  explicit Chain(std::vector<double> seconds, size_t second_block = 99, size_t third_block = 99)
      : seconds_(std::move(seconds)) {
    Builder g(program_);
    graph::Value x = g.Persistent("x", graph::Role::kInput, {DType::kFloat32, {8}});
    for (size_t i = 0; i < seconds_.size(); ++i) {
      const Scope in(g, i < second_block ? "block.0" : i < third_block ? "block.1" : "block.2");
      x = ops::Gelu(g, x, "tanh", "a" + std::to_string(i));
    }
  }

  // Makes the result of a node a decision.
  void Decide(int node, int64_t bytes) {
    Decision decision;
    decision.node = node;
    decision.block = program_.nodes()[node].scope.back() - '0';
    decision.bytes = bytes;
    decisions_.push_back(decision);
  }
  Decision& decision(size_t i) { return decisions_[i]; }

  double Again(const Fates& fates) const {
    return RecomputeSeconds(program_, decisions_, fates, seconds_);
  }
  std::vector<BlockOption> Options(const BlockOptionsLimits& limits = {}, int of_block = 0) const {
    std::vector<int> block;
    for (size_t i = 0; i < decisions_.size(); ++i) {
      if (decisions_[i].block == of_block) block.push_back(static_cast<int>(i));
    }
    return FindBlockOptions(program_, decisions_, block, seconds_, limits);
  }

 private:
  Program program_{"train"};
  std::vector<double> seconds_;
  std::vector<Decision> decisions_;
};

const BlockOption* Find(const std::vector<BlockOption>& options,
                        const std::vector<Retention>& retentions) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const BlockOption& option) {
    return option.fates == retentions;
  });
  return found == options.end() ? nullptr : &*found;
}

constexpr Retention kSave = Retention::kSave, kDrop = Retention::kRecompute,
                    kAway = Retention::kOffload;

// A dropped result is recomputed from the nearest result that was kept.
TEST(BlockOptions, AChainIsComputedAgainFromWhatWasKept) {
  Chain chain({1, 2, 4});
  for (int node = 0; node < 3; ++node) chain.Decide(node, 100);
  const std::vector<BlockOption> options = chain.Options();
  ASSERT_EQ(options.size(), 8u);  // all subsets: the limit allows them
  const struct {
    std::vector<Retention> retentions;
    int64_t kept;
    double seconds;
  } expected[] = {
      {{kSave, kSave, kSave}, 300, 0}, {{kDrop, kSave, kSave}, 200, 1},
      {{kSave, kDrop, kSave}, 200, 2}, {{kSave, kSave, kDrop}, 200, 4},
      {{kDrop, kDrop, kSave}, 100, 3}, {{kSave, kDrop, kDrop}, 100, 6},
      {{kDrop, kSave, kDrop}, 100, 5}, {{kDrop, kDrop, kDrop}, 0, 7},
  };
  for (const auto& e : expected) {
    const BlockOption* const option = Find(options, e.retentions);
    ASSERT_NE(option, nullptr);
    EXPECT_EQ(option->kept_bytes, e.kept);
    EXPECT_DOUBLE_EQ(option->seconds, e.seconds);
    EXPECT_EQ(option->host_bytes, 0);
  }
}

// A result that is never kept, and so is no decision, is recomputed on the way.
TEST(BlockOptions, WhatIsNeverKeptCountsToo) {
  Chain chain({1, 2, 4});
  chain.Decide(2, 100);
  const std::vector<BlockOption> options = chain.Options();
  ASSERT_EQ(options.size(), 2u);
  EXPECT_DOUBLE_EQ(options[0].seconds, 7);
}

TEST(BlockOptions, TheFrontComesFirstAndIsThinnedEvenly) {
  Chain chain({1, 2, 4, 8});
  for (int node = 0; node < 4; ++node) chain.Decide(node, int64_t{10} << node);
  const std::vector<BlockOption> all = chain.Options({.options = 16});
  ASSERT_EQ(all.size(), 16u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.kept_bytes < b.kept_bytes;
  }));
  const std::vector<BlockOption> few = chain.Options({.options = 4});
  ASSERT_EQ(few.size(), 4u);
  EXPECT_EQ(few.front().kept_bytes, 0);
  EXPECT_EQ(few.back().kept_bytes, 150);
  for (size_t i = 1; i < few.size(); ++i) {
    EXPECT_GT(few[i].kept_bytes, few[i - 1].kept_bytes);
    EXPECT_LT(few[i].seconds, few[i - 1].seconds);
  }
}

// Block 1 has two results, of which block 2 reads the second; the first is made of block 0's.
TEST(BlockOptions, WhatAnotherBlockReadsIsComputedAgainFromWhatIsKeptHere) {
  Chain chain({1, 2, 4, 1}, 1, 3);
  for (int node = 0; node < 4; ++node) chain.Decide(node, 100);
  const std::vector<BlockOption> options = chain.Options({}, 1);
  ASSERT_EQ(options.size(), 3u);
  const BlockOption* const dropped = Find(options, {kSave, kDrop});
  ASSERT_NE(dropped, nullptr);
  EXPECT_DOUBLE_EQ(dropped->seconds, 4);
  EXPECT_EQ(dropped->leaving_bytes, 100);
  // Its chain would begin in another block.
  EXPECT_EQ(Find(options, {kDrop, kDrop}), nullptr);
  for (const BlockOption& option : chain.Options({.leaving = false}, 1)) {
    EXPECT_EQ(option.fates[1], kSave);
    EXPECT_EQ(option.leaving_bytes, 0);
  }
}

// Within a chain of blocks, what the next block alone reads is dropped, whatever it is made of.
TEST(BlockOptions, AChainDropsWhatTheNextBlockReads) {
  Chain chain({1, 2, 4, 1}, 1, 3);
  for (int node = 0; node < 4; ++node) chain.Decide(node, 100);
  const std::vector<BlockOption> options = chain.Options({.chained = true}, 1);
  ASSERT_EQ(options.size(), 2u);
  ASSERT_NE(Find(options, {kDrop, kDrop}), nullptr);
  EXPECT_DOUBLE_EQ(Find(options, {kDrop, kDrop})->seconds, 6);
  EXPECT_DOUBLE_EQ(Find(options, {kSave, kDrop})->seconds, 4);
  // No block follows the last one.
  EXPECT_TRUE(chain.Options({.chained = true}, 2).empty());
}

// A lower bound looks at all that may be dropped, in a chain or not.
TEST(BlockOptions, OtherBlocksMayKeepWhatAResultIsMadeOf) {
  Chain chain({1, 2, 4, 1}, 1, 3);
  for (int node = 0; node < 4; ++node) chain.Decide(node, 100);
  const std::vector<BlockOption> options = chain.Options({.within_block = false}, 1);
  ASSERT_EQ(options.size(), 4u);
  EXPECT_DOUBLE_EQ(Find(options, {kDrop, kDrop})->seconds, 6);
}

TEST(BlockOptions, ASumOverChainsIsThatOfTheFates) {
  Chain chain({1, 2, 4});
  for (int node = 0; node < 3; ++node) chain.Decide(node, 100);
  EXPECT_DOUBLE_EQ(chain.Again({kDrop, kDrop, kSave}), 3);
  EXPECT_DOUBLE_EQ(chain.Again({kSave, kSave, kSave}), 0);
}

TEST(BlockOptions, WhatMayNotBeComputedAgainIsKept) {
  Chain chain({1, 1});
  chain.Decide(0, 100);
  chain.Decide(1, 100);
  chain.decision(0).recompute = false;
  for (const BlockOption& option : chain.Options()) EXPECT_EQ(option.fates[0], kSave);
}

// Offloading costs copies in both directions, except for the time hidden behind the block's own
// work.
TEST(BlockOptions, OffloadingCostsWhatCannotBeHidden) {
  Chain chain({10, 10});
  for (int node = 0; node < 2; ++node) {
    chain.Decide(node, 100);
    chain.decision(node).offload = true;
    chain.decision(node).copy_seconds = 3;
  }
  const std::vector<BlockOption> in_line = chain.Options(),
                                 hidden = chain.Options({.hidden_seconds = 4});
  const BlockOption* const both = Find(in_line, {kAway, kAway});
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(both->kept_bytes, 0);
  EXPECT_EQ(both->host_bytes, 200);
  EXPECT_DOUBLE_EQ(both->seconds, 12);
  EXPECT_DOUBLE_EQ(Find(hidden, {kAway, kAway})->seconds, 4);
  EXPECT_DOUBLE_EQ(Find(hidden, {kAway, kSave})->seconds, 0);
  // Nothing is recomputed from an offloaded tensor: it is copied back.
  EXPECT_DOUBLE_EQ(Find(in_line, {kAway, kDrop})->seconds, 6 + 10);
}

// With too many subsets, the smallest tensors are always kept.
TEST(BlockOptions, FewSubsetsAreOfTheLargestTensors) {
  Chain chain({1, 1, 1, 1});
  const int64_t bytes[] = {10, 400, 20, 300};
  for (int node = 0; node < 4; ++node) chain.Decide(node, bytes[node]);
  const std::vector<BlockOption> options = chain.Options({.enumerate = 4});
  ASSERT_EQ(options.size(), 4u);
  for (const BlockOption& option : options) {
    EXPECT_EQ(option.fates[0], kSave);
    EXPECT_EQ(option.fates[2], kSave);
  }
}

}  // namespace
}  // namespace plimsoll::memory
