// The source "masked_text", by the interface that training has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/held_out_batches.h"
#include "data/texts/masked_text.h"
#include "data/tokens/token_source.h"
#include "tests/data/text_batches.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSeed = 11;
constexpr int64_t kSequence = 16;
constexpr int32_t kStart = 2, kSeparator = 3, kMask = 4;
const std::vector<std::string> kPlain = {"tokens", "targets", "token_types", "lengths"};
const std::vector<std::string> kPaired = {"tokens", "targets", "token_types", "lengths",
                                          "next_sentence"};

// The tokens of a row as they were before they were masked.
std::vector<int32_t> Unmasked(const TextBatch& batch, int64_t row) {
  std::vector<int32_t> tokens = batch.Row("tokens", row);
  const std::vector<int32_t> targets = batch.Row("targets", row);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (targets[i] >= 0) tokens[i] = targets[i];
  }
  tokens.resize(static_cast<size_t>(batch.Value("lengths", row)));
  return tokens;
}

class MaskedSource : public testing::Test {
 protected:
  MaskedSource() {
    folder_.Write("vocab.txt", SmallVocab());
    // 30 documents of 5 to 34 words; document d has the words w(d mod 10).
    std::string text;
    for (int d = 0; d < 30; ++d) {
      for (int i = 0; i < 5 + d; ++i) {
        text += "w" + std::to_string(d % 10) + (i % 7 == 6 ? ". " : " ");
      }
      text += "\n%\n";
    }
    folder_.Write("text", text);
  }

  std::unique_ptr<Source> Make(std::map<std::string, SettingValue> given = {},
                               uint64_t seed = kSeed, int64_t sequence = kSequence) const {
    given.try_emplace("tokenizer", folder_ / "vocab.txt");
    if (!given.contains("synthetic")) {
      given.try_emplace("train", std::vector<std::string>{folder_ / "text"});
    }
    given.try_emplace("document_separator", std::string("%"));
    return MakeSource("masked_text", given, {.sequence = sequence, .vocab = 20, .classes = 0},
                      seed);
  }
  static TextBatch Fill(const Source& source, int64_t first, int64_t rows,
                        const std::vector<std::string>& names = kPlain,
                        int64_t sequence = kSequence) {
    TextBatch batch(rows, sequence, names);
    source.Fill(first, batch.slots());
    return batch;
  }

  const TempFolder folder_;
};

// All pieces of an epoch, put together in order, are the text.
TEST_F(MaskedSource, CutsTheWholeTextOnceAnEpoch) {
  folder_.Write("a", "w0 w1 w2 w3 w4 w5 w6 w7 w8\n");
  folder_.Write("b", "w9a w8b\n");
  const auto source =
      Make({{"train", std::vector<std::string>{folder_ / "a", folder_ / "b"}}}, kSeed, 6);
  const std::vector<std::vector<int32_t>> pieces = {{kStart, 6, 7, 8, 9, kSeparator},
                                                    {kStart, 10, 11, 12, 13, kSeparator},
                                                    {kStart, 14, kSeparator, 15, 16, kSeparator},
                                                    {kStart, 14, 17, kSeparator}};
  std::set<std::vector<std::vector<int32_t>>> orders;
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    const TextBatch batch = Fill(*source, 4 * epoch, 4, kPlain, 6);
    std::vector<std::vector<int32_t>> rows;
    for (int64_t row = 0; row < 4; ++row) {
      rows.push_back(Unmasked(batch, row));
      EXPECT_EQ(batch.Row("token_types", row), std::vector<int32_t>(6, 0));
    }
    EXPECT_THAT(rows, testing::UnorderedElementsAreArray(pieces));
    orders.insert(rows);
  }
  EXPECT_GT(orders.size(), 1u);
  EXPECT_EQ(source->sizes(), std::vector<int64_t>{15});
  // The last piece is padded.
  for (int64_t sample = 0; sample < 4; ++sample) {
    const TextBatch batch = Fill(*source, sample, 1, kPlain, 6);
    if (batch.Value("lengths", 0) == 6) continue;
    EXPECT_THAT(batch.Row("tokens", 0), testing::Contains(0).Times(2));
    EXPECT_EQ(batch.Row("targets", 0)[5], kIgnoredTarget);
  }
}

// bench/masked_batches.py makes the same rows for other programs; its test reads this file, too.
TEST_F(MaskedSource, FillsTheRowsThatTheBenchmarkMakes) {
  const nlohmann::json golden =
      nlohmann::json::parse(ReadFile("tests/data/testdata/masked_rows.json"));
  std::string bytes;
  for (const int token : golden["stream"]) bytes += {static_cast<char>(token), '\0'};
  folder_.Write("stream.bin", bytes);
  const int64_t sequence = golden["sequence"];
  const auto source =
      Make({{"train", std::vector<std::string>{folder_ / "stream.bin"}}}, golden["seed"], sequence);
  for (const nlohmann::json& row : golden["rows"]) {
    const TextBatch batch = Fill(*source, row["sample"], 1, kPlain, sequence);
    EXPECT_EQ(batch.Row("tokens", 0), row["tokens"].get<std::vector<int32_t>>());
    EXPECT_EQ(batch.Row("targets", 0), row["targets"].get<std::vector<int32_t>>());
  }
}

TEST_F(MaskedSource, FillsASampleTheSameHoweverSamplesAreSplit) {
  for (const bool pairs : {false, true}) {
    const std::vector<std::string>& names = pairs ? kPaired : kPlain;
    const auto source = Make({{"pairs", pairs}});
    const TextBatch whole = Fill(*source, 0, 60, names);
    for (const int64_t rows : {1, 3, 20}) {
      for (int64_t first = 0; first < 60; first += rows) {
        const TextBatch part = Fill(*source, first, rows, names);
        for (int64_t row = 0; row < rows; ++row) {
          for (const std::string& name : names) {
            ASSERT_EQ(part.Row(name, row), whole.Row(name, first + row)) << name << first;
          }
        }
      }
    }
    // One input less changes no other, another seed all.
    const TextBatch few = Fill(*source, 0, 60, {"tokens", "lengths"});
    for (int64_t row = 0; row < 60; ++row)
      EXPECT_EQ(few.Row("tokens", row), whole.Row("tokens", row));
    EXPECT_FALSE(Fill(*Make({{"pairs", pairs}}, kSeed + 1), 0, 60, names) == whole);
    // Targets are counted as they are filled.
    int64_t targets = 0;
    for (int64_t row = 0; row < 60; ++row) {
      targets += std::ranges::count_if(whole.Row("targets", row), [](int32_t t) { return t >= 0; });
    }
    EXPECT_EQ(source->CountTargets("", 0, 60), targets);
    EXPECT_EQ(source->CountTargets("next_sentence", 0, 60), 60);
  }
  // Pairs are padded, which a model must know.
  ExpectUserError(
      [&] {
        Fill(*Make({{"pairs", true}}), 0, 1, {"tokens", "targets"});
      },
      {"data.pairs", "'lengths'", "model.padded: true"});
}

TEST_F(MaskedSource, MasksAnewInEachEpochButNotInEvaluations) {
  const auto source = Make({{"eval_fraction", 0.2}}), other = Make({{"eval_fraction", 0.2}}, 3);
  std::map<std::vector<int32_t>, std::set<std::vector<int32_t>>> versions;  // of each piece
  for (int64_t sample = 0; sample < 1200; ++sample) {
    const TextBatch batch = Fill(*source, sample, 1);
    versions[Unmasked(batch, 0)].insert(batch.Row("targets", 0));
  }
  size_t most = 0;
  for (const auto& [piece, targets] : versions) most = std::max(most, targets.size());
  EXPECT_GT(most, 20u);

  const auto held_out = source->HeldOut(0);
  const int64_t count = *held_out->samples();
  EXPECT_TRUE(Fill(*held_out, 0, count) == Fill(*source->HeldOut(0), 0, count));
  EXPECT_TRUE(Fill(*held_out, 0, count) == Fill(*other->HeldOut(0), 0, count));
  EXPECT_EQ(source->HeldOut(2)->samples(), 2);
  EXPECT_EQ(Make()->HeldOut(0), nullptr);
  EXPECT_TRUE(FindSource("masked_text") != nullptr);
}

TEST_F(MaskedSource, HoldsOutAndPadsTheLastBatch) {
  const auto source = Make({{"eval", std::vector<std::string>{folder_ / "text"}}, {"pairs", true}});
  const auto held_out = source->HeldOut(3);
  const TextBatch batch = Fill(*held_out, 2, 3, kPaired);
  EXPECT_GE(batch.Value("next_sentence", 0), 0);
  for (int64_t row = 1; row < 3; ++row) {
    EXPECT_EQ(batch.Row("tokens", row), std::vector<int32_t>(kSequence, 0));
    EXPECT_EQ(batch.Row("targets", row), std::vector<int32_t>(kSequence, kIgnoredTarget));
    EXPECT_EQ(batch.Value("lengths", row), 1);
    EXPECT_EQ(batch.Value("next_sentence", row), -1);
  }
  EXPECT_EQ(held_out->CountTargets("", 2, 3), held_out->CountTargets("", 2, 1));
  EXPECT_EQ(held_out->CountTargets("next_sentence", 2, 3), 1);
  // The same on any number of ranks.
  EXPECT_EQ(HeldOutBatches(source->HeldOut(3), 2).CountTargets(),
            HeldOutBatches(source->HeldOut(3), 2, 1, 4).CountTargets());
}

// Each document has words of its own, so that a row tells where A and B come from.
TEST_F(MaskedSource, PairsTexts) {
  const auto source = Make({{"pairs", true}, {"mask_share", 0.0}, {"random_share", 0.0}});
  int64_t follow = 0, behind_sentence = 0, could = 0;
  const int64_t rows = 4000;
  const TextBatch batch = Fill(*source, 0, rows, kPaired);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int32_t> tokens = batch.Row("tokens", row);
    const std::vector<int32_t> types = batch.Row("token_types", row);
    const auto length = static_cast<size_t>(batch.Value("lengths", row));
    const auto first = static_cast<size_t>(std::ranges::find(tokens, kSeparator) - tokens.begin());
    ASSERT_EQ(tokens[0], kStart);
    ASSERT_EQ(tokens[length - 1], kSeparator);
    ASSERT_GE(first, 2u);
    ASSERT_GE(length, first + 3);
    for (size_t i = 0; i < tokens.size(); ++i) {
      ASSERT_EQ(types[i], i > first && i < length ? 1 : 0);
      ASSERT_TRUE(i < length || tokens[i] == 0);
    }
    const auto word_of = [&](size_t begin) {
      return tokens[begin] == 5 ? tokens[begin + 1] : tokens[begin];
    };
    const bool follows = batch.Value("next_sentence", row) == 0;
    follow += follows ? 1 : 0;
    if (follows) {
      ASSERT_EQ(word_of(1), word_of(first + 1));
    }
    if (length > 12 && follows) {
      ++could;
      behind_sentence += tokens[first - 1] == 5 ? 1 : 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(follow) / rows, 0.5, 0.04);
  EXPECT_EQ(behind_sentence, could);
}

TEST_F(MaskedSource, TakesTheSecondTextFromAnotherDocument) {
  folder_.Write("two", "w0 w0 w0 w0 w0 w0\n%\nw1 w1 w1 w1 w1 w1 w1\n");
  const auto source = Make({{"train", std::vector<std::string>{folder_ / "two"}},
                            {"pairs", true},
                            {"mask_share", 0.0},
                            {"random_share", 0.0}});
  std::set<int32_t> labels;
  for (int64_t sample = 0; sample < 50; ++sample) {
    const TextBatch batch = Fill(*source, sample, 1, kPaired);
    const std::vector<int32_t> tokens = batch.Row("tokens", 0);
    const auto first = std::ranges::find(tokens, kSeparator) - tokens.begin();
    const bool same = tokens[1] == tokens[static_cast<size_t>(first) + 1];
    EXPECT_EQ(batch.Value("next_sentence", 0), same ? 0 : 1);
    labels.insert(batch.Value("next_sentence", 0));
  }
  EXPECT_EQ(labels.size(), 2u);
}

TEST_F(MaskedSource, FillsWithoutAllocating) {
  const auto source = Make({{"pairs", true}, {"whole_words", true}, {"eval_fraction", 0.1}});
  const auto held_out = source->HeldOut(0);
  const TextBatch batch(64, kSequence, kPaired);
  EXPECT_EQ(CountAllocations([&] { source->Fill(5, batch.slots()); }), 0);
  EXPECT_EQ(CountAllocations([&] { held_out->Fill(0, batch.slots()); }), 0);
}

TEST_F(MaskedSource, MakesUpTokensWithoutFiles) {
  for (const bool pairs : {false, true}) {
    const auto source = MakeSource("masked_text", {{"synthetic", true}, {"pairs", pairs}},
                                   {.sequence = 32, .vocab = 1000, .classes = 0}, kSeed);
    const TextBatch batch = Fill(*source, 0, 100, pairs ? kPaired : kPlain, 32);
    for (int64_t row = 0; row < 100; ++row) {
      EXPECT_EQ(batch.Value("lengths", row), 32);
      EXPECT_EQ(batch.Row("tokens", row).back(), kSeparator);
    }
    EXPECT_NEAR(static_cast<double>(source->CountTargets("", 0, 100)), 100 * 30 * 0.15, 60);
    EXPECT_NE(source->HeldOut(8), nullptr);
    EXPECT_THAT(source->Describe({.samples_per_step = 4}), HasSubstr("random tokens"));
  }
}

TEST_F(MaskedSource, ReadsTokenFiles) {
  std::string bytes;
  for (const int id : {6, 7, 3, 8, 9, 3}) bytes += std::string{static_cast<char>(id), '\0'};
  folder_.Write("x.bin", bytes);
  const auto source = Make({{"train", std::vector<std::string>{folder_ / "x.bin"}}});
  EXPECT_EQ(Unmasked(Fill(*source, 0, 1), 0),
            (std::vector<int32_t>{kStart, 6, 7, kSeparator, 8, 9, kSeparator}));
}

TEST_F(MaskedSource, DescribesItself) {
  folder_.Write("a", "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9\n");
  const auto source = Make({{"train", std::vector<std::string>{folder_ / "a"}}}, kSeed, 8);
  EXPECT_THAT(
      source->Describe({.samples_per_step = 8, .samples = 5}),
      testing::AllOf(
          testing::StartsWith(
              "data: 11 tokens to train on, in 2 texts of 8, 8 per step, 2.5 epochs\n"
              "  masked: 15 % of the tokens, of which 80 % become the mask, 10 % a random token\n"
              "  12.5 % of the positions are padding\n"),
          HasSubstr("text became 11 tokens, 11 B on disk in ")));
  EXPECT_THAT(
      Make({{"pairs", true}, {"whole_words", true}})
          ->Describe({.samples_per_step = 8, .samples = 5, .held_out_targets = 7, .eval_every = 3}),
      testing::AllOf(HasSubstr("pairs of texts"), HasSubstr("% of the words"),
                     HasSubstr("7 held-out masks evaluated every 3 steps")));
}

TEST_F(MaskedSource, NamesWhatIsWrong) {
  const auto expect = [&](const std::map<std::string, SettingValue>& given, const char* name,
                          const char* reason) {
    EXPECT_THAT(SettingErrorOf(name, [&] { Make(given); }), HasSubstr(reason));
  };
  folder_.Write("bare.txt", "[UNK]\n[PAD]\n[CLS]\n[SEP]\na\n");
  folder_.Write("less.txt", "[UNK]\n[CLS]\na\n");
  expect({{"tokenizer", folder_ / "bare.txt"}}, "tokenizer", "has no token [MASK]");
  expect({{"tokenizer", folder_ / "less.txt"}}, "tokenizer", "has no token [PAD]");
  expect({{"tokenizer", folder_ / "less.txt"}}, "tokenizer", "plimsoll data wordpiece");
  expect({{"tokenizer", std::string()}}, "tokenizer", "plimsoll data wordpiece");
  expect({{"mask_share", 0.8}, {"random_share", 0.3}}, "random_share", "more than 1 together");
  expect({{"synthetic", true}, {"tokenizer", std::string()}, {"whole_words", true}}, "whole_words",
         "WordPiece");

  ExpectUserError(
      [&] {
        Make({{"tokenizer", folder_ / "none"}});
      },
      {"data.tokenizer", "no such tokenizer"});
  ExpectUserError([&] { Make({}, kSeed, 3); }, {"model.sequence: 3", "5 or more"});
  ExpectUserError(
      [&] {
        Make({{"pairs", true}, {"document_separator", std::string()}});
      },
      {"data.train", "two documents", "data.document_separator"});
  folder_.Write("many.txt", SmallVocab() + "x\ny\n");
  ExpectUserError([&] { Make({{"tokenizer", folder_ / "many.txt"}}); }, {"model.vocab", "22"});
  folder_.Write("blank", " \n \n");
  ExpectUserError(
      [&] {
        Make({{"train", std::vector<std::string>{folder_ / "blank"}}});
      },
      {"data.train", "no tokens"});

  const auto source = Make();
  ExpectUserError([&] { Fill(*source, 0, 1, kPaired); }, {"data.pairs: true", "next_sentence"});
  ExpectUserError(
      [&] {
        Fill(*source, 0, 1, {"tokens", "labels"});
      },
      {"'labels'", "i32[1]", "tokens, targets"});
  ExpectUserError([&] { Fill(*source, 0, 1, {"tokens"}, 8); },
                  {"'tokens'", "i32[1,8]", "i32[B,16]"});
  ExpectUserError([&] { Fill(*source, 0, 1, {"lengths"}); }, {"read tokens"});
}

MarkerTokens Markers() {
  return {.pad = 0,
          .start = kStart,
          .separator = kSeparator,
          .mask = kMask,
          .special = {0, 1, 2, 3, 4}};
}

TEST(TokenMasking, MasksTheShareThatIsAskedFor) {
  const TokenMasking masking({}, Markers(), 1000);
  std::map<int32_t, int64_t> masked;  // by position
  int64_t mask = 0, kept = 0, random = 0;
  const int64_t rounds = 20000;
  for (int64_t key = 0; key < rounds; ++key) {
    std::vector<int32_t> tokens = {kStart, 10, 11, 1, 12, 13, 14, 15, 16, 17, 18, 19, kSeparator};
    const std::vector<int32_t> before = tokens;
    std::vector<int32_t> targets(tokens.size());
    ASSERT_EQ(masking.Apply(static_cast<uint64_t>(key), tokens, targets), 2);  // 15 % of 10
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (targets[i] == kIgnoredTarget) {
        ASSERT_EQ(tokens[i], before[i]);
        continue;
      }
      ASSERT_EQ(targets[i], before[i]);
      ASSERT_GE(targets[i], 10);
      ++masked[static_cast<int32_t>(i)];
      ASSERT_TRUE(tokens[i] == kMask || (tokens[i] > kMask && tokens[i] < 1000));
      (tokens[i] == kMask ? mask : tokens[i] == before[i] ? kept : random) += 1;
    }
  }
  const auto share = [&](int64_t n) { return static_cast<double>(n) / (2.0 * rounds); };
  EXPECT_NEAR(share(mask), 0.8, 0.01);
  EXPECT_NEAR(share(random), 0.1, 0.01);
  EXPECT_NEAR(share(kept), 0.1, 0.01);
  ASSERT_EQ(masked.size(), 10u);
  for (const auto& [position, count] : masked) EXPECT_NEAR(share(count), 0.1, 0.01) << position;
}

TEST(TokenMasking, MasksWordsAsAWhole) {
  std::vector<bool> continues(100);
  for (size_t id = 50; id < 100; ++id) continues[id] = true;
  const TokenMasking masking({.fraction = 0.3, .mask_share = 1, .random_share = 0}, Markers(), 100,
                             continues);
  // Six words: 51 without its beginning, 10 50 60, 11, 12 70, 90 behind a special token, 13 80.
  const std::vector<int32_t> text = {kStart, 51, 10, 50, 60, 11, 12, 70, 1, 90, 13, 80, kSeparator};
  const std::vector<std::vector<size_t>> words = {{1}, {2, 3, 4}, {5}, {6, 7}, {9}, {10, 11}};
  std::map<size_t, int> chosen;
  for (uint64_t key = 0; key < 3000; ++key) {
    std::vector<int32_t> tokens = text, targets(text.size());
    masking.Apply(key, tokens, targets);
    int count = 0;
    for (size_t word = 0; word < words.size(); ++word) {
      const bool masked = targets[words[word].front()] >= 0;
      for (const size_t i : words[word]) {
        ASSERT_EQ(targets[i] >= 0, masked);
        ASSERT_EQ(tokens[i], masked ? kMask : text[i]);
      }
      chosen[word] += masked ? 1 : 0;
      count += masked ? 1 : 0;
    }
    ASSERT_EQ(count, 2);
  }
  for (const auto& [word, count] : chosen) EXPECT_NEAR(count, 1000, 100) << word;
}

TEST(TokenMasking, HasAtLeastOneTargetIfItCan) {
  const TokenMasking masking({}, Markers(), 100);
  std::vector<int32_t> one = {kStart, 9, kSeparator}, none = {kStart, 1, kSeparator};
  EXPECT_EQ(masking.Apply(1, one, {}), 1);
  EXPECT_EQ(masking.Apply(1, none, {}), 0);
}

}  // namespace
}  // namespace plimsoll::data
