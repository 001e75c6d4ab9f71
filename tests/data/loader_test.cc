#include "data/tokens/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "data/tokens/token_file.h"
#include "tests/data/sources.h"
#include "tests/support/expect_error.h"
#include "tests/support/shared_folder.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

LoaderOptions Options(DataOrder order, int64_t batch, int64_t sequence, int64_t accumulate = 1) {
  LoaderOptions options;
  options.order = order;
  options.seed = 7;
  options.batch = batch;
  options.sequence = sequence;
  options.accumulate = accumulate;
  return options;
}

struct Batch {
  std::vector<int32_t> tokens, targets;
};

template <typename... Index>
Batch Get(const auto& loader, int64_t batch, int64_t sequence, Index... index) {
  Batch out;
  out.tokens.assign(static_cast<size_t>(batch * sequence), -1);
  out.targets = out.tokens;
  loader.Fill(index..., out.tokens.data(), out.targets.data());
  return out;
}

std::vector<int32_t> Range(int32_t first, int64_t count) {
  std::vector<int32_t> range(static_cast<size_t>(count));
  std::iota(range.begin(), range.end(), first);
  return range;
}

TEST(Permutation, VisitsEveryNumberOnce) {
  for (const uint64_t n : {1u, 2u, 3u, 4u, 5u, 17u, 64u, 1000u, 4097u}) {
    for (const uint64_t key : {0u, 1u, 99u}) {
      const Permutation order(n, key);
      std::set<uint64_t> seen;
      for (uint64_t i = 0; i < n; ++i) {
        EXPECT_LT(order(i), n);
        seen.insert(order(i));
      }
      EXPECT_EQ(seen.size(), n);
    }
  }
}

TEST(Permutation, KeysGiveDifferentOrdersWithoutVisiblePattern) {
  const Permutation a(10000, 1), b(10000, 2);
  int same = 0, rising = 0;
  for (uint64_t i = 0; i + 1 < 10000; ++i) {
    same += a(i) == b(i);
    rising += a(i) < a(i + 1);
  }
  EXPECT_LT(same, 20);             // 1 expected
  EXPECT_NEAR(rising, 5000, 200);  // standard deviation 29
}

TEST(BatchLoader, ConsecutiveReadsWindowAfterWindow) {
  const int64_t batch = 2, sequence = 5, accumulate = 3;
  const BatchLoader loader({Counting(0, 1000)},
                           Options(DataOrder::kConsecutive, batch, sequence, accumulate));
  for (int64_t step = 0; step < 30; ++step) {
    for (int64_t micro = 0; micro < accumulate; ++micro) {
      const auto start = static_cast<int32_t>((step * accumulate + micro) * batch * sequence);
      const Batch got = Get(loader, batch, sequence, step, micro);
      EXPECT_EQ(got.tokens, Range(start, batch * sequence));
      EXPECT_EQ(got.targets, Range(start + 1, batch * sequence));
    }
  }
}

TEST(BatchLoader, ConsecutiveCrossesShardsAndWrapsByWholeWindows) {
  // 23 tokens give 5 windows of 4 + 1, across sources that end within windows.
  const BatchLoader loader({Counting(0, 7), Counting(7, 1), Counting(8, 15)},
                           Options(DataOrder::kConsecutive, 1, 4));
  EXPECT_EQ(loader.parts()[0].sequences(), 5);
  for (int64_t step = 0; step < 13; ++step) {
    const Batch got = Get(loader, 1, 4, step, 0);
    EXPECT_EQ(got.tokens, Range(static_cast<int32_t>(step % 5) * 4, 4));
    EXPECT_EQ(got.targets, Range(static_cast<int32_t>(step % 5) * 4 + 1, 4));
  }
}

TEST(BatchLoader, ConsecutiveMatchesTheReferenceTrajectories) {
  const auto shared = SharedFolder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  TokenFileOptions file_options;
  file_options.vocab = 256;
  const auto file =
      OpenTokenFile(*shared + "/golden/gpt2-tiny-accumulate/tokens.bin", file_options);
  std::vector<int32_t> all(static_cast<size_t>(file->size()));
  file->Read(0, file->size(), all.data());
  const BatchLoader loader({file}, Options(DataOrder::kConsecutive, 2, 32, 4));
  for (int64_t step = 0; step < 20; ++step) {
    for (int64_t micro = 0; micro < 4; ++micro) {
      const int64_t start = (step * 4 + micro) * 64;
      const Batch got = Get(loader, 2, 32, step, micro);
      EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), all.begin() + start));
      EXPECT_TRUE(std::equal(got.targets.begin(), got.targets.end(), all.begin() + start + 1));
    }
  }
}

TEST(BatchLoader, AnEpochHasEveryWindowOnceAndNoneCrossesShards) {
  const int64_t sequence = 8;
  // The last is too short for a window, the one before has exactly one.
  const SourceList sources = {Counting(0, 500), Counting(10000, 77), Counting(20000, 9),
                              Counting(30000, 8)};
  const BatchLoader loader(sources, Options(DataOrder::kShuffled, 1, sequence));
  // 500 tokens: 62 windows, one of them given up; 77: 9 windows, all kept; 9: one.
  ASSERT_EQ(loader.parts()[0].sequences(), 61 + 9 + 1);
  std::set<std::vector<int32_t>> cuts;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::map<int32_t, std::vector<int32_t>> starts;  // by source
    for (int64_t i = 0; i < loader.parts()[0].sequences(); ++i) {
      const Batch got = Get(loader, 1, sequence, epoch * loader.parts()[0].sequences() + i, 0);
      const int32_t start = got.tokens[0];
      EXPECT_EQ(got.tokens, Range(start, sequence));
      EXPECT_EQ(got.targets, Range(start + 1, sequence));
      EXPECT_LT(got.targets.back() % 10000, sources[start / 10000]->size());
      starts[start / 10000].push_back(start % 10000);
    }
    EXPECT_EQ(starts[0].size(), 61u);
    EXPECT_EQ(starts[1].size(), 9u);
    EXPECT_EQ(starts[2].size(), 1u);
    EXPECT_FALSE(std::is_sorted(starts[0].begin(), starts[0].end()));
    for (auto& [source, list] : starts) {
      std::sort(list.begin(), list.end());
      for (size_t i = 1; i < list.size(); ++i) EXPECT_EQ(list[i] - list[i - 1], sequence);
    }
    cuts.insert(starts[0]);
  }
  EXPECT_GT(cuts.size(), 1u) << "every epoch was cut at the same offset";
}

TEST(BatchLoader, AStepIsTheSameHoweverItIsSplit) {
  const int64_t sequence = 6, global = 24;
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kConsecutive}) {
    std::vector<std::vector<int32_t>> seen;
    for (const auto& [batch, accumulate, ranks] :
         std::vector<std::array<int64_t, 3>>{{24, 1, 1}, {4, 6, 1}, {2, 3, 4}, {1, 1, 24}}) {
      ASSERT_EQ(batch * accumulate * ranks, global);
      std::vector<int32_t> step_tokens;
      for (int64_t micro = 0; micro < accumulate; ++micro) {
        for (int64_t rank = 0; rank < ranks; ++rank) {
          LoaderOptions options = Options(order, batch, sequence, accumulate);
          options.data_rank = rank;
          options.data_ranks = ranks;
          const BatchLoader loader({Counting(0, 700)}, options);
          EXPECT_EQ(loader.CountTargets(5), global * sequence);
          const Batch got = Get(loader, batch, sequence, int64_t{5}, micro);
          step_tokens.insert(step_tokens.end(), got.tokens.begin(), got.tokens.end());
        }
      }
      seen.push_back(step_tokens);
      EXPECT_EQ(seen.back(), seen.front());
    }
  }
}

// For any number of sequences each part gives its share, and its earlier sequences are counted.
TEST(Mixture, DealsOutByWeight) {
  for (const std::vector<double>& weights :
       std::vector<std::vector<double>>{{1},
                                        {1, 1},
                                        {2, 1},
                                        {1, 3},
                                        {0.1, 0.7, 0.2},
                                        {5, 1, 1, 1, 3},
                                        {1e-3, 1},
                                        {1, 1e-3},
                                        {1, 1, 1, 1, 1, 1, 1}}) {
    const Mixture mixture(weights);
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<int64_t> counts(weights.size());
    for (int64_t g = 0; g < 3000; ++g) {
      const auto [part, number] = mixture.Of(g);
      ASSERT_EQ(number, counts[part]++) << g;
      for (size_t p = 0; p < weights.size(); ++p) {
        ASSERT_EQ(mixture.Count(p, g + 1), counts[p]) << g;
        const double share = weights[p] / total;
        EXPECT_NEAR(mixture.share(p), share, 1e-12);
        ASSERT_NEAR(static_cast<double>(counts[p]), share * static_cast<double>(g + 1), 1.5)
            << "part " << p << " of sequence " << g;
      }
    }
  }
  // Far into a run it works as at the start.
  const Mixture mixture({2, 1});
  const int64_t far = int64_t{3} << 50;
  EXPECT_NEAR(static_cast<double>(mixture.Count(0, far) - (int64_t{1} << 51)), 0, 1);
  const auto [part, number] = mixture.Of(far);
  EXPECT_EQ(number, mixture.Count(part, far));
}

std::vector<MixturePart> TwoParts() {
  return {{"large", {Counting(0, 4001)}, 3},
          {"small", {Counting(10000, 90), Counting(20000, 31)}, 1}};
}

// The large part is still in its first epoch while the small one is in its sixth.
TEST(BatchLoader, PartsOfAMixtureHaveEpochsOfTheirOwn) {
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kConsecutive}) {
    const BatchLoader loader(TwoParts(), Options(order, 4, 10));
    EXPECT_EQ(loader.tokens(), 4001 + 90 + 31);
    const int64_t small = loader.parts()[1].sequences();
    ASSERT_EQ(small, order == DataOrder::kShuffled ? 8 + 3 : 12);
    std::map<int32_t, int> large_starts;
    std::vector<std::vector<int32_t>> epochs;  // of the small part: the first tokens of its windows
    for (int64_t step = 0; step < 60; ++step) {
      const Batch got = Get(loader, 4, 10, step, 0);
      for (int row = 0; row < 4; ++row) {
        const int32_t first = got.tokens[static_cast<size_t>(row * 10)];
        if (first < 10000) {
          ++large_starts[first];
        } else {
          if (epochs.empty() || std::ssize(epochs.back()) == small) epochs.emplace_back();
          epochs.back().push_back(first);
        }
      }
    }
    EXPECT_EQ(large_starts.size(), 180u) << "every window of the large part is new";
    ASSERT_EQ(epochs.size(), static_cast<size_t>((60 + small - 1) / small));
    for (std::vector<int32_t>& epoch : epochs) {
      const std::set<int32_t> different(epoch.begin(), epoch.end());
      EXPECT_EQ(different.size(), epoch.size());
    }
    EXPECT_EQ(epochs[0] != epochs[1], order == DataOrder::kShuffled);
  }
}

TEST(BatchLoader, APartAloneIsAPlainList) {
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kConsecutive}) {
    const LoaderOptions options = Options(order, 4, 8);
    const BatchLoader plain({Counting(0, 500), Counting(1000, 300)}, options);
    const BatchLoader part({MixturePart{"", {Counting(0, 500), Counting(1000, 300)}, 7}}, options);
    for (int64_t step = 0; step < 60; ++step) {
      EXPECT_EQ(Get(part, 4, 8, step, 0).tokens, Get(plain, 4, 8, step, 0).tokens);
    }
  }
}

TEST(BatchLoader, AStepOfAMixtureIsTheSameHoweverItIsSplit) {
  std::vector<int32_t> first;
  for (const auto& [batch, accumulate, ranks] :
       std::vector<std::array<int64_t, 3>>{{12, 1, 1}, {2, 6, 1}, {1, 3, 4}, {3, 2, 2}}) {
    std::vector<int32_t> tokens;
    for (int64_t micro = 0; micro < accumulate; ++micro) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        LoaderOptions options = Options(DataOrder::kShuffled, batch, 10, accumulate);
        options.data_rank = rank;
        options.data_ranks = ranks;
        const Batch got = Get(BatchLoader(TwoParts(), options), batch, 10, int64_t{9}, micro);
        tokens.insert(tokens.end(), got.tokens.begin(), got.tokens.end());
      }
    }
    if (first.empty()) first = tokens;
    EXPECT_EQ(tokens, first);
  }
}

TEST(BatchLoader, APartWithoutAWindowIsAnError) {
  ExpectUserError(
      [] {
        BatchLoader({MixturePart{"a", {Counting(0, 100)}}, MixturePart{"b/*", {Counting(0, 8)}}},
                    Options(DataOrder::kShuffled, 1, 8));
      },
      {"data.train[1] (b/*)", "8 tokens", "8 + 1", "model.sequence"});
}

// Five steps of 6 sequences, then steps of 4: no sequence is read twice or left out.
TEST(BatchLoader, StepsOfAnotherSizeReadOn) {
  const BatchLoader before({Counting(0, 4001)}, Options(DataOrder::kShuffled, 6, 10));
  LoaderOptions options = Options(DataOrder::kShuffled, 2, 10, 2);
  options.skip = before.FirstSequence(5) - 5 * 4;
  const BatchLoader after({Counting(0, 4001)}, options);
  EXPECT_EQ(after.FirstSequence(5), 30);
  EXPECT_EQ(after.FirstSequence(6), 34);
  std::vector<int32_t> found;
  for (const auto& [step, micro] : std::vector<std::pair<int, int>>{{5, 0}, {5, 1}, {6, 0}}) {
    const std::vector<int32_t> tokens = Get(after, 2, 10, step, micro).tokens;
    found.insert(found.end(), tokens.begin(), tokens.end());
  }
  EXPECT_EQ(found, Get(before, 6, 10, 5, 0).tokens);
}

TEST(BatchLoader, OrderDependsOnTheSeedAndNothingElse) {
  LoaderOptions options = Options(DataOrder::kShuffled, 4, 8);
  const BatchLoader one({Counting(0, 5000)}, options), two({Counting(0, 5000)}, options);
  // Read in another order, as after a resume.
  const Batch later = Get(two, 4, 8, 9, 0);
  for (int64_t step = 0; step < 9; ++step) {
    EXPECT_EQ(Get(one, 4, 8, step, 0).tokens, Get(two, 4, 8, step, 0).tokens);
  }
  EXPECT_EQ(Get(one, 4, 8, 9, 0).tokens, later.tokens);
  options.seed = 8;
  const BatchLoader other({Counting(0, 5000)}, options);
  EXPECT_NE(Get(other, 4, 8, 0, 0).tokens, Get(one, 4, 8, 0, 0).tokens);
}

TEST(BatchLoader, IgnoredTargetsAreMarkedAndNotCounted) {
  const TempFolder files;
  std::vector<uint16_t> ids(100);
  std::vector<uint8_t> mask(100);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<uint16_t>(i);
    mask[i] = i % 3 == 0 ? 1 : 0;
  }
  TokenFileOptions file_options;
  file_options.vocab = 200;
  const auto path = files.WriteAs("a.bin", ids);
  files.WriteAs("a.bin.mask", mask);
  const auto masked = OpenTokenFile(path, file_options);
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kConsecutive}) {
    // The second source has no mask: all of it counts.
    const BatchLoader loader({masked, Counting(100, 50)}, Options(order, 3, 7, 2));
    for (int64_t step = 0; step < 10; ++step) {
      int64_t counted = 0;
      for (int64_t micro = 0; micro < 2; ++micro) {
        const Batch got = Get(loader, 3, 7, step, micro);
        for (size_t i = 0; i < got.tokens.size(); ++i) {
          const int32_t target = got.tokens[i] + 1;
          const bool kept = target >= 100 || target % 3 == 0;
          EXPECT_EQ(got.targets[i], kept ? target : kIgnoredTarget);
          counted += kept;
        }
      }
      EXPECT_EQ(loader.CountTargets(step), counted);
    }
  }
}

TEST(BatchLoader, ABatchTheDataCannotFillIsAnError) {
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kConsecutive}) {
    // 41 tokens: 5 windows of 8 + 1.
    EXPECT_EQ(BatchLoader({Counting(0, 41)}, Options(order, 5, 8)).sequences_per_step(), 5);
    ExpectUserError([&] { BatchLoader({Counting(0, 41)}, Options(order, 3, 8, 2)); },
                    {"data.train", "41 tokens", "5 windows", "8 + 1", "6 (micro_batch 3",
                     "accumulate 2", "data ranks 1", "train.micro_batch"});
    ExpectUserError([&] { BatchLoader({Counting(0, 8)}, Options(order, 1, 8)); }, {"0 windows"});
  }
  EXPECT_EQ(ParseDataOrder("shuffled"), DataOrder::kShuffled);
  ExpectUserError([] { ParseDataOrder("random"); }, {"data.order", "random", "consecutive"});
}

TEST(SyntheticSource, GivesTheSameTokensBelowTheVocabulary) {
  const auto source = MakeSyntheticSource(3, 1000, int64_t{1} << 40);
  std::vector<int32_t> ids(20000), again(1000);
  source->Read(int64_t{1} << 39, 20000, ids.data());
  source->Read((int64_t{1} << 39) + 5000, 1000, again.data());
  EXPECT_TRUE(std::equal(again.begin(), again.end(), ids.begin() + 5000));
  EXPECT_GE(*std::min_element(ids.begin(), ids.end()), 0);
  EXPECT_LT(*std::max_element(ids.begin(), ids.end()), 1000);
  EXPECT_GT(std::set<int32_t>(ids.begin(), ids.end()).size(), 990u);
  // Huge epochs need no memory, and batches are filled as from any other source.
  const BatchLoader loader({source}, Options(DataOrder::kShuffled, 4, 1024));
  const Batch got = Get(loader, 4, 1024, 1000000, 0);
  EXPECT_TRUE(std::equal(got.tokens.begin() + 1, got.tokens.begin() + 1024, got.targets.begin()));
}

}  // namespace
}  // namespace plimsoll::data
