// Text that is encoded piece by piece has the ids that it has as a whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/split_pattern.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/data/stripping_tokenizers.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

const std::string kFolder = "tests/data/tokenizers/";
const std::vector<std::string> kTokenizers = {"byte",
                                              kFolder + "gpt2_style.json",
                                              kFolder + "llama2_style.json",
                                              kFolder + "llama2_normalized_style.json",
                                              kFolder + "llama3_style.json",
                                              kFolder + "metaspace_always_style.json",
                                              kFolder + "metaspace_first_style.json",
                                              kFolder + "qwen2_style.json",
                                              kFolder + "wordpiece_vocab.txt"};

// Blanks of all kinds, marks that compose across what stands between them, tokens that are spelled
// out, bytes that are not UTF-8.
const std::vector<std::string_view> kParts = {" ",
                                              " ",
                                              " ",
                                              "\n",
                                              "\n\n",
                                              "  ",
                                              "\t",
                                              "\r\n",
                                              "a",
                                              "the",
                                              "the ",
                                              "Quick",
                                              "e\u0301",
                                              "\u0301",
                                              "\u00e9",
                                              "\u4e2d\u6587",
                                              "。",
                                              "▁",
                                              "<s>",
                                              "</s>",
                                              "[MASK]",
                                              "[mask]",
                                              "<|endoftext|>",
                                              "'s",
                                              "'ll",
                                              "123",
                                              "\u0663",
                                              "\u00a0",
                                              "\u2028",
                                              "\u3000",
                                              "\U0001f6a2",
                                              "한",
                                              "\u1100",
                                              "\u1161",
                                              "\u212b",
                                              "\u0130",
                                              "=\u0338",
                                              "\u037e",
                                              "!!",
                                              "\xff",
                                              "\xe4\xb8",
                                              "\xc3",
                                              "<|begin_of_text|>",
                                              "<unk>",
                                              "_"};

// Of StrippingTokenizers().
const std::vector<std::string_view> kStripping = {"[L]",  "[R]",    "[B]", "[W]", "[LW]",
                                                  "[RW]", "[W][R]", "NL",  "NR",  "NW"};

class EncodesInPieces : public testing::Test {
 protected:
  std::string RandomText(size_t parts, const std::vector<std::string_view>& more = {}) {
    std::string text;
    for (size_t i = 0; i < parts; ++i) {
      const size_t part = random_() % (kParts.size() + 2 * more.size());
      text += part < kParts.size() ? kParts[part] : more[(part - kParts.size()) / 2];
    }
    return text;
  }

  // Pieces of random lengths, which grow where nothing is certain.
  std::vector<int32_t> EncodeInPieces(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<int32_t> ids;
    Tokenizer::Place place = Tokenizer::Place::kStart;
    size_t piece = 1 + random_() % 60;
    while (piece < text.size()) {
      const size_t done = tokenizer.EncodeStart(text.substr(0, piece), &ids, place);
      EXPECT_LE(done, piece);
      if (done == 0) {
        piece += 1 + random_() % 20;
        continue;
      }
      ++cuts_;
      text.remove_prefix(done);
      place = Tokenizer::Place::kWithin;
      piece = 1 + random_() % 60;
    }
    tokenizer.Encode(text, &ids, place);
    return ids;
  }

  std::mt19937 random_{1};
  int cuts_ = 0;
};

class EncodeStart : public EncodesInPieces, public testing::WithParamInterface<std::string> {};

TEST_P(EncodeStart, CutsWhereNothingChanges) {
  const auto tokenizer = LoadTokenizer(GetParam());
  for (int i = 0; i < 1500; ++i) {
    const std::string text = RandomText(60);
    std::vector<int32_t> whole;
    tokenizer->Encode(text, &whole);
    ASSERT_EQ(EncodeInPieces(*tokenizer, text), whole) << "text " << i << ": " << text;
  }
  EXPECT_GT(cuts_, 1500);
}

INSTANTIATE_TEST_SUITE_P(All, EncodeStart, testing::ValuesIn(kTokenizers));

TEST_F(EncodesInPieces, AroundTokensThatTakeWhiteSpace) {
  for (const StrippingTokenizer& of : StrippingTokenizers(/*words=*/false)) {
    SCOPED_TRACE(of.name);
    cuts_ = 0;
    for (int i = 0; i < 1500; ++i) {
      const std::string text = RandomText(60, kStripping);
      std::vector<int32_t> whole;
      of.tokenizer->Encode(text, &whole);
      ASSERT_EQ(EncodeInPieces(*of.tokenizer, text), whole) << "text " << i << ": " << text;
    }
    EXPECT_GT(cuts_, 1000);
  }
}

TEST(SplitPattern, KnowsWhatItLooksAt) {
  const auto looks_behind = [](const char* pattern) {
    return SplitPattern(pattern, "here").LooksBehind();
  };
  for (const char* pattern : {"^a", "\\Aa", "\\ba", "(?<=x)a", "(?<!x)a", "(?m)^a"}) {
    EXPECT_TRUE(looks_behind(pattern)) << pattern;
  }
  for (const char* pattern : {"a", "[^a]+", "[a^]", "\\^", "a(?=b)", "a$"}) {
    EXPECT_FALSE(looks_behind(pattern)) << pattern;
  }
  EXPECT_FALSE(looks_behind(std::string(kGpt2Pattern).c_str()));
  const SplitPattern pattern(kGpt2Pattern, "here");
  size_t begin = 0, end = 0;
  EXPECT_TRUE(pattern.FindWhateverFollows("one two", 0, &begin, &end));
  EXPECT_EQ(end, 3u);
  EXPECT_FALSE(pattern.FindWhateverFollows("one two", 3, &begin, &end));
  EXPECT_TRUE(pattern.Find("one two", 3, &begin, &end));
}

}  // namespace
}  // namespace plimsoll::data
