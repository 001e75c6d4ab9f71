#include "data/held_out_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "data/tokens/token_data.h"
#include "tests/data/sources.h"
#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

std::unique_ptr<const Source> Windows(int64_t tokens, int64_t sequence, int64_t most = 0) {
  std::vector<MixturePart> parts(1);
  parts[0].sources = {Counting(0, tokens)};
  return std::make_unique<HeldOutTokens>(parts, sequence, most);
}

struct Batch {
  std::vector<int32_t> tokens, targets;
};

graph::Slot SlotOf(const char* name, graph::Shape shape, std::vector<int32_t>& values) {
  return {name, {graph::DType::kInt32, shape}, std::as_writable_bytes(std::span(values))};
}

Batch Get(const HeldOutBatches& eval, int64_t batch, int64_t sequence, int64_t index) {
  Batch out;
  out.tokens.assign(static_cast<size_t>(batch * sequence), -1);
  out.targets = out.tokens;
  const std::vector<graph::Slot> slots = {SlotOf("tokens", {batch, sequence}, out.tokens),
                                          SlotOf("targets", {batch, sequence}, out.targets)};
  eval.Fill(index, slots);
  return out;
}

std::vector<int32_t> Range(int32_t first, int64_t count) {
  std::vector<int32_t> range(static_cast<size_t>(count));
  std::iota(range.begin(), range.end(), first);
  return range;
}

TEST(HeldOutBatches, CoverEveryWindowOnceAndPadTheLast) {
  const int64_t batch = 2, sequence = 4, ranks = 3;
  // 45 tokens: 11 windows, 6 a batch over all ranks.
  std::vector<int32_t> targets;
  for (int64_t index = 0; index < 2; ++index) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const HeldOutBatches eval(Windows(45, sequence), batch, rank, ranks);
      ASSERT_EQ(eval.count(), 2);
      EXPECT_EQ(eval.CountTargets(), 44);
      const Batch got = Get(eval, batch, sequence, index);
      targets.insert(targets.end(), got.targets.begin(), got.targets.end());
      if (index == 1 && rank == 2) {
        EXPECT_EQ(std::vector<int32_t>(got.tokens.begin() + 4, got.tokens.end()),
                  std::vector<int32_t>(4, 0));
      }
    }
  }
  std::vector<int32_t> expected = Range(1, 44);
  expected.resize(48, kIgnoredTarget);
  EXPECT_EQ(targets, expected);
}

// 13 sequences for any batch and any number of ranks: the rest of the last batch is padding.
TEST(HeldOutBatches, AreTheSameSequencesHoweverTheyAreCut) {
  const int64_t sequence = 4;
  for (const int64_t batch : {1, 2, 3, 8, 16}) {
    for (const int64_t ranks : {1, 2, 4}) {
      std::vector<int32_t> targets;
      const int64_t count = (13 + batch * ranks - 1) / (batch * ranks);
      for (int64_t index = 0; index < count; ++index) {
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const HeldOutBatches eval(Windows(1000, sequence, 13), batch, rank, ranks);
          EXPECT_EQ(eval.count(), count);
          EXPECT_EQ(eval.CountTargets(), 13 * sequence);
          const Batch got = Get(eval, batch, sequence, index);
          targets.insert(targets.end(), got.targets.begin(), got.targets.end());
        }
      }
      std::vector<int32_t> expected = Range(1, 13 * sequence);
      expected.resize(static_cast<size_t>(count * batch * ranks * sequence), kIgnoredTarget);
      EXPECT_EQ(targets, expected) << batch << " × " << ranks;
    }
  }
}

TEST(HeldOutBatches, AreAllThatIsHeldOutWhereThatIsLess) {
  const HeldOutBatches few(Windows(10, 4, 6), 2);
  EXPECT_EQ(few.count(), 1);
  EXPECT_EQ(few.CountTargets(), 8);
  ExpectUserError([&] { Windows(4, 4, 6); }, {"data.eval", "4 tokens", "4 + 1"});
}

// Each part gives its share by weight; if it has too few windows, the others give more; 0 is all of
// both.
TEST(HeldOutBatches, OfAMixtureAreSharedByWeight) {
  const auto counts = [](int64_t sequences) {
    const std::vector<MixturePart> parts = {{"a", {Counting(0, 401)}, 3},
                                            {"b", {Counting(10000, 21)}, 1}};
    const HeldOutBatches eval(std::make_unique<HeldOutTokens>(parts, 4, sequences), 3);
    std::pair<int64_t, int64_t> counts;
    std::set<int32_t> seen;
    for (int64_t i = 0; i < eval.count(); ++i) {
      for (const int32_t target : Get(eval, 3, 4, i).targets) {
        if (target == kIgnoredTarget) continue;
        EXPECT_TRUE(seen.insert(target).second) << target;
        ++(target < 10000 ? counts.first : counts.second);
      }
    }
    EXPECT_EQ(eval.CountTargets(), std::ssize(seen));
    return counts;
  };
  EXPECT_EQ(counts(8), std::pair(int64_t{24}, int64_t{8}));
  EXPECT_EQ(counts(40), std::pair(int64_t{140}, int64_t{20}));
  EXPECT_EQ(counts(0), std::pair(int64_t{400}, int64_t{20}));
  EXPECT_EQ(counts(1000), std::pair(int64_t{400}, int64_t{20}));
}

// Samples 0, 1, … of one number each, which cannot be padded.
class Numbers final : public Source {
 public:
  explicit Numbers(int64_t count) : count_(count) {}
  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const std::span<int32_t> values = slots[0].values<int32_t>();
    std::iota(values.begin(), values.end(), static_cast<int32_t>(first));
  }
  std::optional<int64_t> samples() const override { return count_; }

 private:
  int64_t count_;
};

TEST(HeldOutBatches, LeaveOutWhatFillsNoBatchWithoutPadding) {
  for (const int64_t ranks : {1, 2}) {
    std::vector<int32_t> seen;
    const int64_t batch = 4 / ranks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const HeldOutBatches eval(std::make_unique<Numbers>(11), batch, rank, ranks);
      EXPECT_EQ(eval.count(), 2);
      EXPECT_EQ(eval.CountTargets(), 8);
      for (int64_t i = 0; i < eval.count(); ++i) {
        std::vector<int32_t> values(static_cast<size_t>(batch));
        const std::vector<graph::Slot> slots = {SlotOf("x", {batch}, values)};
        eval.Fill(i, slots);
        seen.insert(seen.end(), values.begin(), values.end());
      }
    }
    std::ranges::sort(seen);
    EXPECT_EQ(seen, Range(0, 8));
  }
  ExpectUserError([] { HeldOutBatches(std::make_unique<Numbers>(3), 2, 0, 2); },
                  {"data.source", "3 held-out samples", "4 of a batch", "train.micro_batch"});
}

}  // namespace
}  // namespace plimsoll::data
