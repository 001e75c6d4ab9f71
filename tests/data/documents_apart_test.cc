// data.documents: apart: positions and targets of windows that hold several documents.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens/dataset.h"
#include "data/tokens/loader.h"
#include "data/tokens/token_file.h"
#include "tests/data/sources.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

constexpr int32_t kNo = kIgnoredTarget;
constexpr const char* kWithEnd = "tests/data/tokenizers/llama2_style.json";  // </s> ends texts

std::shared_ptr<const TokenSource> SourceOf(const std::vector<int32_t>& ids) {
  ScratchTokenWriter writer({.name = "ids", .vocab = 100});
  writer.Append(ids, 0);
  return writer.Finish();
}

struct Row {
  explicit Row(int64_t sequence)
      : tokens(static_cast<size_t>(sequence)), targets(tokens), positions(tokens) {}
  TokenRow out() { return {tokens.data(), targets.data(), positions.data()}; }
  std::vector<int32_t> tokens, targets, positions;
};

TEST(DocumentsApart, BeginAtPositionZero) {
  // 9 ends documents. The window begins within one.
  const std::vector<int32_t> ids = {1, 2, 9, 3, 9, 9, 4, 5, 6};
  const TokenStream apart({SourceOf(ids)}, 9), joined({SourceOf(ids)});
  Row row(8);
  apart.ReadWindow(0, 8, row.out());
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{1, 2, 9, 3, 9, 9, 4, 5}));
  EXPECT_EQ(row.targets, (std::vector<int32_t>{2, 9, kNo, 9, kNo, kNo, 5, 6}));
  EXPECT_EQ(row.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 0, 1}));
  EXPECT_EQ(apart.CountWindow(0, 8), 5);
  EXPECT_FALSE(apart.counts_all());

  joined.ReadWindow(0, 8, row.out());
  EXPECT_EQ(row.targets, (std::vector<int32_t>{2, 9, 3, 9, 9, 4, 5, 6}));
  EXPECT_EQ(row.positions, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(joined.CountWindow(0, 8), 8);
}

// More tokens than are counted at a time, across sources.
TEST(DocumentsApart, CountAsTheyAreRead) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 5000; ++i) ids.push_back(i % 7 == 3 ? 9 : i % 50 + 10);
  const TokenStream stream({SourceOf(ids), SourceOf(ids)}, 9);
  for (const int64_t sequence : {1, 1023, 1024, 1025, 4000}) {
    for (const int64_t start : {0, 3, 2000, 4995}) {
      Row row(sequence);
      stream.ReadWindow(start, sequence, row.out());
      EXPECT_EQ(stream.CountWindow(start, sequence),
                std::ranges::count_if(row.targets, [](int32_t target) { return target != kNo; }));
    }
  }
}

DataOptions Options(const std::string& train) {
  DataOptions options;
  options.train = {{.files = {train}}};
  options.tokenizer = kWithEnd;
  options.vocab = 1000;
  options.sequence = 8;
  options.documents_apart = true;
  options.split.delimiter = "%";
  return options;
}

TEST(DocumentsApart, EndWithTheTokenizersToken) {
  const TempFolder folder;
  const std::string text = folder.Write("a.txt", Sayings(20));
  const int32_t end = LoadTokenizer(kWithEnd)->EndOfText().value();
  const auto check = [&](const DataOptions& options) {
    LoaderOptions reading;
    reading.sequence = 8;
    const DataSet set = OpenData(options);
    EXPECT_EQ(set.train[0].document_end, end);
    const BatchLoader loader(set.train, reading);
    int64_t ends = 0;
    for (int64_t i = 0; i < loader.parts()[0].sequences(); ++i) {
      Row row(8);
      loader.FillFrom(i, 1, {row.tokens.data(), row.targets.data(), row.positions.data()});
      int64_t counted = 0;
      for (size_t at = 0; at < 8; ++at) {
        const bool last = row.tokens[at] == end;
        ends += last;
        counted += row.targets[at] != kNo;
        EXPECT_EQ(row.targets[at] == kNo, last);
        if (at + 1 == 8) continue;
        EXPECT_EQ(row.positions[at + 1], last ? 0 : row.positions[at] + 1);
      }
      EXPECT_EQ(row.positions[0], 0);
      EXPECT_EQ(loader.CountTargets(i, 1), counted);
    }
    EXPECT_GT(ends, 3);
    EXPECT_EQ(loader.SequencesWithoutTargets(), 0);
  };
  const DataOptions of_text = Options(text);
  check(of_text);

  // The same tokens in a file, of which the tokenizer tells the end.
  TokenFileWriter writer(folder / "a.bin", {});
  writer.Append(ReadAll(*OpenData(of_text).train[0].sources[0]));
  writer.Finish();
  writer.Commit();
  DataOptions of_tokens = Options(folder / "a.bin");
  of_tokens.tokenizer = "";
  of_tokens.end_tokenizer = kWithEnd;
  check(of_tokens);
  CheckData(of_tokens);
  of_tokens.end_tokenizer = "";
  ExpectUserError([&] { OpenData(of_tokens); }, {"data.documents", "data.tokenizer", "joined"});
}

TEST(DocumentsApart, NeedAnEnd) {
  const TempFolder folder;
  DataOptions options = Options(folder.Write("a.txt", Sayings(20)));
  options.tokenizer = "byte";
  for (const auto& open : {+[](const DataOptions& o) { OpenData(o); }, &CheckData}) {
    ExpectUserError([&] { open(options); }, {"data.documents", "byte", "joined"});
  }
}

TEST(DocumentsApart, AreNoExamples) {
  const TempFolder folder;
  const DataOptions options =
      Options(folder.Write("qa.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}\n"));
  for (const auto& open : {+[](const DataOptions& o) { OpenData(o); }, &CheckData}) {
    ExpectUserError([&] { open(options); }, {"data.documents", "data.packing: best_fit"});
  }
}

}  // namespace
}  // namespace plimsoll::data
