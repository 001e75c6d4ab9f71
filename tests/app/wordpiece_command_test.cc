// `plimsoll data wordpiece`, and the training behind it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/data_commands.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Tokens = std::vector<std::string>;

Tokens Train(const std::string& text, WordPieceTraining options) {
  WordCounts counts(options.words);
  counts.Add(text);
  return TrainWordPieces(counts, options);
}

const Tokens kSpecial = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

Tokens WithSpecial(const Tokens& tokens) {
  Tokens all = kSpecial;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

// Counts by hand: hug 4, pug 3, hugs 2.
TEST(WordPieceTraining, MergesTheCommonestPairs) {
  const std::string text = "hug hug hug hug pug pug pug hugs hugs ";
  const Tokens characters = {"g", "h", "p", "s", "u", "##g", "##s", "##u"};
  Tokens expected = WithSpecial(characters);
  // ##u ##g 9; h ##ug 6; p ##ug 3; hug ##s 2.
  for (const char* merged : {"##ug", "hug", "pug", "hugs"}) expected.emplace_back(merged);
  EXPECT_EQ(Train(text, {}), expected);
  expected.resize(expected.size() - 2);
  EXPECT_EQ(Train(text, {.size = std::ssize(expected)}), expected);
  EXPECT_EQ(Train(text, {.least_count = 4}), expected);
}

TEST(WordPieceTraining, BreaksTiesByTheOrderOfTheVocabulary) {
  EXPECT_EQ(Train("bc bc ad ad", {}), WithSpecial({"a", "b", "c", "d", "##c", "##d", "ad", "bc"}));
  // a ##a 2, ##a ##a 4, whose places overlap: they are merged from the left.
  EXPECT_EQ(Train("aaaa aaaa", {}), WithSpecial({"a", "##a", "##aa", "aaa", "aaaa"}));
}

TEST(WordPieceTraining, LeavesRareCharactersOut) {
  const Tokens tokens = Train("ab ab ab ab xb", {.characters = 2});
  EXPECT_EQ(tokens, WithSpecial({"a", "b", "##b", "ab"}));
}

TEST(WordPieceTraining, DoesNotDependOnTheOrderOfWords) {
  std::string text, backwards;
  for (int i = 0; i < 2000; ++i) {
    const std::string word = std::to_string(i * 7919 % 3001) + "x" + std::to_string(i % 37) + " ";
    text += word;
    backwards = word + backwards;
  }
  EXPECT_EQ(Train(text, {.size = 400}), Train(backwards, {.size = 400}));
}

class WordPieceCommand : public testing::Test {
 protected:
  WordPieceCommand() {
    std::string text;
    for (int i = 0; i < 50; ++i) text += "The Load line, the Café\n%\nloads loading\n";
    folder_.Write("text", text);
    folder_.Write("text.gz", Gzip(text));
  }
  WordPieceOptions Options(const std::string& out) const {
    return {.inputs = {folder_ / "text"},
            .exclude = {},
            .separator = "%",
            .cased = false,
            .training = {.size = 60},
            .out = folder_ / out,
            .overwrite = false};
  }
  const TempFolder folder_;
};

TEST_F(WordPieceCommand, WritesATokenizerThatIsReadAgain) {
  const WordPieceResult result = MakeWordPieces(Options("out"), {});
  EXPECT_EQ(result.words, 7);  // the load line , cafe loads loading
  EXPECT_GT(result.bytes, 0);
  const auto tokenizer = LoadTokenizer(folder_ / "out");
  EXPECT_EQ(tokenizer->vocab_size(), result.tokens);
  EXPECT_EQ(tokenizer->TokenId("[MASK]"), 4);
  EXPECT_EQ(tokenizer->TokenId("%"), std::nullopt);
  EXPECT_EQ(tokenizer->Encode("CAFÉ loading").size(), 2u);

  WordPieceOptions cased = Options("cased");
  cased.cased = true;
  MakeWordPieces(cased, {});
  const auto with_case = LoadTokenizer(folder_ / "cased");
  EXPECT_TRUE(with_case->TokenId("Café"));
  EXPECT_NE(with_case->Encode("Load"), with_case->Encode("load"));
}

TEST_F(WordPieceCommand, WritesTheSameBytesOfCompressedText) {
  MakeWordPieces(Options("plain"), {});
  WordPieceOptions compressed = Options("compressed");
  compressed.inputs = {folder_ / "text.gz"};
  std::string said;
  MakeWordPieces(compressed, [&](std::string_view text) { said += text; });
  EXPECT_EQ(ReadFile(folder_ / "plain/vocab.txt"), ReadFile(folder_ / "compressed/vocab.txt"));
  EXPECT_EQ(ReadFile(folder_ / "plain/tokenizer_config.json"),
            ReadFile(folder_ / "compressed/tokenizer_config.json"));
  EXPECT_NE(said.find("unpacking"), said.npos);
}

TEST_F(WordPieceCommand, SaysWhatIsWrong) {
  MakeWordPieces(Options("out"), {});
  ExpectUserError([&] { MakeWordPieces(Options("out"), {}); }, {"vocab.txt", "--overwrite"});
  WordPieceOptions options = Options("out");
  options.overwrite = true;
  MakeWordPieces(options, {});
  options.training.size = 10;
  ExpectUserError([&] { MakeWordPieces(options, {}); }, {"--size 10", "--characters"});
  options = Options("text");
  ExpectUserError([&] { MakeWordPieces(options, {}); }, {"text", "--out"});
  options = Options("none");
  options.inputs = {folder_ / "nothing*"};
  ExpectUserError([&] { MakeWordPieces(options, {}); }, {"data wordpiece", "nothing*"});
  folder_.Write("blank", "\n \n");
  options.inputs = {folder_ / "blank"};
  ExpectUserError([&] { MakeWordPieces(options, {}); }, {"no words"});
}

}  // namespace
}  // namespace plimsoll::data
