// Packing: how examples fill rows, what becomes of those that are too long, and what a row holds.
#include "data/tokens/packed_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/tokens/dataset.h"
#include "data/tokens/loader.h"
#include "data/tokens/token_data.h"
#include "tests/data/sources.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

constexpr int32_t kNo = kIgnoredTarget;

// Examples one after the other: tokens first, first + 1, …, of which the first `prompt` carry no
// loss.
struct Lengths {
  int32_t prompt = 0, completion = 0;
};
struct Examples {
  std::shared_ptr<const TokenSource> source;
  std::vector<int64_t> ends;
};
Examples Counted(const std::vector<Lengths>& lengths) {
  ScratchTokenWriter writer({.name = "examples", .vocab = 1 << 30, .masked = true});
  Examples examples;
  int32_t next = 0;
  for (const Lengths& example : lengths) {
    for (const bool carries_loss : {false, true}) {
      std::vector<int32_t> ids(
          static_cast<size_t>(carries_loss ? example.completion : example.prompt));
      std::iota(ids.begin(), ids.end(), next);
      next += static_cast<int32_t>(ids.size());
      writer.Append(ids, 0, carries_loss);
    }
    examples.ends.push_back(writer.tokens());
  }
  examples.source = writer.Finish();
  return examples;
}

PackedRows Pack(const std::vector<Lengths>& lengths, const PackingOptions& options) {
  const Examples examples = Counted(lengths);
  return PackedRows(examples.source, examples.ends, options, "data.train");
}

struct Row {
  std::vector<int32_t> tokens, targets, positions;
};
Row Get(const PackedRows& rows, int64_t number) {
  Row row;
  for (auto* values : {&row.tokens, &row.targets, &row.positions}) {
    values->assign(static_cast<size_t>(rows.options().sequence), -7);
  }
  rows.Read(number, {row.tokens.data(), row.targets.data(), row.positions.data()});
  return row;
}

std::vector<int32_t> RandomLengths(int64_t count, int32_t most, uint64_t seed) {
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(1 + static_cast<int32_t>(Below(Hash(seed, static_cast<uint64_t>(i)),
                                                     static_cast<uint64_t>(most))));
  }
  return lengths;
}

// Best-fit decreasing by its definition, in quadratic time.
std::vector<int32_t> NaiveBins(const std::vector<int32_t>& lengths,
                               const std::vector<int32_t>& order, int32_t room) {
  std::vector<int32_t> left, bins;
  for (const int32_t item : order) {
    const int32_t length = lengths[static_cast<size_t>(item)];
    size_t best = left.size();
    for (size_t bin = 0; bin < left.size(); ++bin) {
      if (left[bin] >= length && (best == left.size() || left[bin] < left[best])) best = bin;
    }
    if (best == left.size()) left.push_back(room);
    left[best] -= length;
    bins.push_back(left[best]);  // bins of equal room are as good as one another
  }
  return bins;
}

TEST(FitDecreasing, FillsRowsOfAKnownCase) {
  // 7; 5 + 3; 4 + 4; 2 + 1: the least room that is enough is taken.
  const std::vector<int32_t> lengths = {4, 1, 7, 3, 5, 2, 4};
  const BestFit fit = FitDecreasing(lengths, 8);
  EXPECT_EQ(fit.order, (std::vector<int32_t>{2, 4, 0, 6, 3, 5, 1}));
  EXPECT_EQ(fit.bins, (std::vector<int32_t>{0, 1, 2, 2, 1, 3, 0}));
  EXPECT_EQ(fit.count, 4);
}

TEST(FitDecreasing, IsBestFitByItsDefinition) {
  for (const int32_t room : {1, 2, 10, 64, 1000}) {
    const std::vector<int32_t> lengths = RandomLengths(400, room, static_cast<uint64_t>(room));
    const BestFit fit = FitDecreasing(lengths, room);
    std::vector<int32_t> seen = fit.order;
    std::ranges::sort(seen);
    for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], static_cast<int32_t>(i));
    std::vector<int32_t> left(static_cast<size_t>(fit.count), room), rooms;
    for (size_t i = 0; i < fit.order.size(); ++i) {
      int32_t& bin = left[static_cast<size_t>(fit.bins[i])];
      bin -= lengths[static_cast<size_t>(fit.order[i])];
      ASSERT_GE(bin, 0);
      rooms.push_back(bin);
      if (i > 0) {
        ASSERT_LE(lengths[static_cast<size_t>(fit.order[i])],
                  lengths[static_cast<size_t>(fit.order[i - 1])]);
      }
    }
    EXPECT_EQ(rooms, NaiveBins(lengths, fit.order, room));
  }
}

TEST(FitDecreasing, RefusesWhatFitsNoBin) {
  EXPECT_THROW(FitDecreasing(std::vector<int32_t>{9}, 8), std::exception);
  EXPECT_THROW(FitDecreasing(std::vector<int32_t>{0}, 8), std::exception);
  EXPECT_EQ(FitDecreasing({}, 8).count, 0);
}

TEST(PackedRows, HoldExamplesApart) {
  // Tokens 0 1 2 | 3 4 5 6 7; of each example the first token is the prompt.
  const PackedRows rows = Pack({{1, 2}, {1, 4}}, {.sequence = 10});
  ASSERT_EQ(rows.rows(), 1);
  const Row row = Get(rows, 0);
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{3, 4, 5, 6, 7, 0, 1, 2, 0, 0}));
  EXPECT_EQ(row.targets, (std::vector<int32_t>{4, 5, 6, 7, kNo, 1, 2, kNo, kNo, kNo}));
  EXPECT_EQ(row.positions, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 0, 1}));
  EXPECT_EQ(rows.CountTargets(0), 6);
  EXPECT_EQ(rows.CountTokens(0), 8);
  // Positions need not be wanted.
  Row other = row;
  rows.Read(0, {other.tokens.data(), other.targets.data(), nullptr});
  EXPECT_EQ(other.targets, row.targets);
}

TEST(PackedRows, OfOneExampleEachWithoutPacking) {
  const PackedRows rows =
      Pack({{2, 1}, {0, 4}, {0, 1}}, {.packing = Packing::kNone, .sequence = 4});
  ASSERT_EQ(rows.rows(), 3);
  EXPECT_EQ(Get(rows, 0).tokens, (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(Get(rows, 0).targets, (std::vector<int32_t>{kNo, 2, kNo, kNo}));
  EXPECT_EQ(Get(rows, 0).positions, (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(Get(rows, 1).tokens, (std::vector<int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(Get(rows, 1).targets, (std::vector<int32_t>{4, 5, 6, kNo}));
  // One token has nothing to predict.
  EXPECT_EQ(Get(rows, 2).tokens, (std::vector<int32_t>{7, 0, 0, 0}));
  EXPECT_EQ(Get(rows, 2).targets, (std::vector<int32_t>{kNo, kNo, kNo, kNo}));
  EXPECT_EQ(Get(rows, 2).positions, (std::vector<int32_t>{0, 0, 1, 2}));
  EXPECT_EQ(rows.CountTargets(2), 0);
  EXPECT_EQ(rows.CountTokens(2), 1);
}

TEST(PackedRows, OfPromptsAloneHaveNoTarget) {
  const PackedRows rows = Pack({{3, 0}}, {.sequence = 4});
  EXPECT_EQ(Get(rows, 0).tokens, (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(Get(rows, 0).targets, (std::vector<int32_t>(4, kNo)));
  EXPECT_EQ(rows.CountTargets(0), 0);
}

TEST(PackedRows, CutWhatIsTooLong) {
  const std::vector<Lengths> lengths = {{0, 9}, {0, 3}, {0, 4}};
  const auto pack = [&](TooLong too_long) {
    return Pack(lengths, {.packing = Packing::kNone, .too_long = too_long, .sequence = 4});
  };
  const PackedRows truncated = pack(TooLong::kTruncate);
  ASSERT_EQ(truncated.rows(), 3);
  EXPECT_EQ(Get(truncated, 0).tokens, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Get(truncated, 0).targets, (std::vector<int32_t>{1, 2, 3, kNo}));
  EXPECT_EQ(Get(truncated, 1).tokens, (std::vector<int32_t>{9, 10, 11, 0}));
  EXPECT_EQ(truncated.counts().tokens, 4 + 3 + 4);

  const PackedRows dropped = pack(TooLong::kDrop);
  ASSERT_EQ(dropped.rows(), 2);
  EXPECT_EQ(Get(dropped, 0).tokens, (std::vector<int32_t>{9, 10, 11, 0}));
  EXPECT_EQ(dropped.counts().tokens, 3 + 4);

  const PackedRows split = pack(TooLong::kSplit);
  ASSERT_EQ(split.rows(), 5);
  EXPECT_EQ(Get(split, 0).tokens, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Get(split, 1).tokens, (std::vector<int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(Get(split, 1).positions, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Get(split, 2).tokens, (std::vector<int32_t>{8, 0, 0, 0}));
  EXPECT_EQ(split.counts().tokens, 9 + 3 + 4);

  for (const PackedRows* rows : {&truncated, &dropped, &split}) {
    EXPECT_EQ(rows->counts().examples, 3);
    EXPECT_EQ(rows->counts().too_long, 1);
  }
  ExpectUserError(
      [&] {
        Pack({{0, 9}}, {.too_long = TooLong::kDrop, .sequence = 4});
      },
      {"data.train", "data.too_long: drop", "model.sequence 4", "truncate"});
}

TEST(PackedRows, HaveEveryExampleOnce) {
  const int64_t sequence = 50;
  std::vector<Lengths> lengths;
  int64_t tokens = 0;
  for (const int32_t length : RandomLengths(700, 50, 3)) {
    lengths.push_back({length / 3, length - length / 3});
    tokens += length;
  }
  const PackedRows rows = Pack(lengths, {.sequence = sequence});
  EXPECT_EQ(rows.counts().examples, 700);
  EXPECT_EQ(rows.counts().tokens, tokens);
  // No packing is better than full rows; best-fit decreasing needs at most 11/9 of the best.
  EXPECT_GE(rows.rows(), (tokens + sequence - 1) / sequence);
  EXPECT_LE(rows.rows(), tokens * 11 / 9 / sequence + 2);
  std::vector<int32_t> seen;
  for (int64_t i = 0; i < rows.rows(); ++i) {
    const Row row = Get(rows, i);
    const auto held = static_cast<size_t>(rows.CountTokens(i));
    ASSERT_LE(held, row.tokens.size());
    seen.insert(seen.end(), row.tokens.begin(), row.tokens.begin() + static_cast<int64_t>(held));
    EXPECT_EQ(std::ranges::count_if(row.targets, [](int32_t target) { return target != kNo; }),
              rows.CountTargets(i));
    for (size_t at = 1; at < held; ++at) {
      if (row.positions[at] == 0) {
        EXPECT_EQ(row.targets[at - 1], kNo);
      } else {
        EXPECT_EQ(row.tokens[at], row.tokens[at - 1] + 1);
        EXPECT_EQ(row.positions[at], row.positions[at - 1] + 1);
        if (row.targets[at - 1] != kNo) {
          EXPECT_EQ(row.targets[at - 1], row.tokens[at]);
        }
      }
    }
  }
  std::ranges::sort(seen);
  ASSERT_EQ(std::ssize(seen), tokens);
  for (int64_t i = 0; i < tokens; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(PackedRows, TellHowFullTheyAre) {
  const PackedRows one = Pack({{0, 9}, {0, 3}}, {.sequence = 4}),
                   two = Pack({{0, 1}}, {.sequence = 4});
  const std::vector<const PackedRows*> parts = {&one, nullptr, &two};
  EXPECT_EQ(PackingText(parts),
            "  3 examples in 3 rows of 4 tokens, 66.7 % full (data.packing: best_fit)\n"
            "  1 of these examples had more than 4 tokens and were cut to their first 4 "
            "(data.too_long: truncate)\n");
  EXPECT_EQ(PackingText(std::vector<const PackedRows*>{nullptr}), "");
}

DataOptions Options(const std::string& train, Packing packing, int64_t sequence) {
  DataOptions options;
  options.train = {{.files = {train}}};
  options.tokenizer = "byte";
  options.vocab = 256;
  options.packing = packing;
  options.sequence = sequence;
  return options;
}

// "p0=a", "p1=aa", …
std::string Lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += "{\"prompt\": \"p" + std::to_string(i) + "=\", \"answer\": \"" +
             std::string(static_cast<size_t>(1 + i * 7 % 11), 'a') + "\"}\n";
  }
  return lines;
}

LoaderOptions Reading(int64_t batch, int64_t accumulate, int64_t ranks, int64_t rank,
                      DataOrder order = DataOrder::kShuffled) {
  LoaderOptions options;
  options.order = order;
  options.seed = 5;
  options.batch = batch;
  options.sequence = 32;
  options.accumulate = accumulate;
  options.data_ranks = ranks;
  options.data_rank = rank;
  return options;
}

struct Batch {
  explicit Batch(int64_t rows)
      : tokens(static_cast<size_t>(rows * 32)), targets(tokens), positions(tokens) {}
  std::vector<int32_t> tokens, targets, positions;
  bool operator==(const Batch&) const = default;
};

TEST(PackedExamples, AnEpochHasEveryRowOnce) {
  const TempFolder folder;
  const std::string path = folder.Write("qa.jsonl", Lines(60));
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kConsecutive}) {
    const BatchLoader loader(OpenData(Options(path, Packing::kBestFit, 32)).train,
                             Reading(1, 1, 1, 0, order));
    const int64_t rows = loader.parts()[0].sequences();
    std::vector<std::string> orders;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::string text;
      for (int64_t i = 0; i < rows; ++i) {
        Batch batch(1);
        loader.FillFrom(epoch * rows + i, 1,
                        {batch.tokens.data(), batch.targets.data(), batch.positions.data()});
        for (const int32_t id : batch.tokens) text += static_cast<char>(id);
      }
      for (int i = 0; i < 60; ++i) {
        const std::string example = "p" + std::to_string(i) + "=" +
                                    std::string(static_cast<size_t>(1 + i * 7 % 11), 'a') + "\n";
        const size_t at = text.find(example);
        ASSERT_NE(at, text.npos) << example;
        EXPECT_EQ(text.find(example, at + 1), text.npos) << example;
      }
      orders.push_back(text);
    }
    EXPECT_EQ(orders[0] == orders[1], order == DataOrder::kConsecutive);
  }
}

// Also read anew, as a resumed run does.
TEST(PackedExamples, AStepIsTheSameHoweverItIsSplit) {
  const TempFolder folder;
  const std::string path = folder.Write("qa.jsonl", Lines(90));
  const BatchLoader all(OpenData(Options(path, Packing::kBestFit, 32)).train, Reading(8, 1, 1, 0));
  for (const int64_t step : {0, 1, 5}) {
    Batch whole(8);
    all.Fill(step, 0, whole.tokens.data(), whole.targets.data(), whole.positions.data());
    int64_t counted = 0;
    for (const int32_t target : whole.targets) counted += target != kNo;
    EXPECT_EQ(all.CountTargets(step), counted);
    Batch split(8);
    for (int64_t micro = 0; micro < 2; ++micro) {
      for (int64_t rank = 0; rank < 2; ++rank) {
        const BatchLoader loader(OpenData(Options(path, Packing::kBestFit, 32)).train,
                                 Reading(2, 2, 2, rank));
        const int64_t at = (micro * 2 + rank) * 2 * 32;
        loader.Fill(step, micro, split.tokens.data() + at, split.targets.data() + at,
                    split.positions.data() + at);
        EXPECT_EQ(loader.CountTargets(step), counted);
      }
    }
    EXPECT_EQ(split, whole);
  }
}

TEST(PackedExamples, HeldOutOnesAreRowsToo) {
  const TempFolder folder;
  DataOptions options = Options(folder.Write("qa.jsonl", Lines(40)), Packing::kNone, 32);
  options.split.eval_fraction = 0.1;
  const TokenData data(OpenData(options), Reading(2, 1, 1, 0), 256, /*synthetic=*/false);
  const auto held_out = data.HeldOut(0);
  EXPECT_EQ(held_out->samples(), 4);
  EXPECT_EQ(data.epoch_samples(), 36);
  Batch batch(5);
  const graph::TensorType type = {graph::DType::kInt32, {5, 32}};
  const std::vector<graph::Slot> slots = {
      {"tokens", type, std::as_writable_bytes(std::span(batch.tokens))},
      {"targets", type, std::as_writable_bytes(std::span(batch.targets))},
      {"positions", type, std::as_writable_bytes(std::span(batch.positions))}};
  held_out->Fill(0, slots);
  int64_t counted = 0;
  for (int64_t row = 0; row < 5; ++row) {
    const auto* const positions = batch.positions.data() + row * 32;
    const auto ends = std::find(positions + 1, positions + 32, 0);
    EXPECT_EQ(ends == positions + 32, row == 4);  // the row after the last is padding alone
    for (int64_t i = 0; i < 32; ++i) {
      const auto at = static_cast<size_t>(row * 32 + i);
      EXPECT_EQ(batch.positions[at], i < ends - positions ? i : i - (ends - positions));
      counted += batch.targets[at] != kNo;
    }
  }
  EXPECT_EQ(held_out->CountTargets("", 0, 5), counted);
  EXPECT_GT(counted, 0);
  const std::string text = data.Describe({.samples_per_step = 2, .samples = 72});
  EXPECT_NE(text.find("36 examples in 36 rows of 32 tokens"), text.npos) << text;
  EXPECT_NE(text.find("2 epochs"), text.npos) << text;
  EXPECT_EQ(data.CountTokens(0, 36), data.sizes()[0]);
}

TEST(PackedExamples, FewerRowsThanAStepReadsAreAnError) {
  const TempFolder folder;
  const std::string path = folder.Write("qa.jsonl", Lines(3));
  ExpectUserError(
      [&] {
        BatchLoader(OpenData(Options(path, Packing::kBestFit, 32)).train, Reading(4, 1, 1, 0));
      },
      {"data.train", "3 examples give 1 row of 32", "reads 4", "train.micro_batch"});
}

TEST(PackedExamples, AreNoOtherFiles) {
  const TempFolder folder;
  const std::string text = folder.Write("a.txt", "plain text");
  const DataOptions options = Options(text, Packing::kBestFit, 4);
  ExpectUserError([&] { OpenData(options); }, {"data.packing", "*.jsonl", "a.txt"});
  ExpectUserError([&] { CheckData(options); }, {"data.packing", "*.jsonl", "a.txt"});
  // Text next to them is held out in windows.
  DataOptions mixed = Options(folder.Write("qa.jsonl", Lines(3)), Packing::kBestFit, 32);
  mixed.eval = {text};
  EXPECT_EQ(OpenData(mixed).eval[0].rows, nullptr);
  CheckData(mixed);
}

}  // namespace
}  // namespace plimsoll::data
