// Pairs of answers: the forms that files have, their tokens, and how pairs fill rows.
#include "data/texts/preference_pairs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/texts/examples.h"
#include "data/tokens/dataset.h"
#include "data/tokens/packed_rows.h"
#include "data/tokens/token_data.h"
#include "tests/data/sources.h"
#include "tests/support/expect_error.h"
#include "tests/support/needs_jinja2.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

constexpr int32_t kNo = kIgnoredTarget;

PreferencePair Parse(const std::string& text) { return ParsePreferencePair(text, "a.jsonl:3"); }

TEST(PreferencePairs, AreTextsOrMessages) {
  const PreferencePair texts = Parse(R"({"prompt": "p", "chosen": "c", "rejected": "r", "x": 1})");
  EXPECT_FALSE(texts.chat());
  EXPECT_EQ(texts.prompt + texts.chosen + texts.rejected, "pcr");
  const PreferencePair chat = Parse(
      R"({"prompt": [{"role": "user", "content": "p"}],
          "chosen": [{"role": "assistant", "content": "c"}],
          "rejected": [{"role": "assistant", "content": "r"}]})");
  ASSERT_TRUE(chat.chat());
  EXPECT_EQ(chat.prompt_messages, (std::vector<ChatMessage>{{"user", "p"}}));
  EXPECT_EQ(chat.chosen_messages, (std::vector<ChatMessage>{{"assistant", "c"}}));
  EXPECT_EQ(chat.rejected_messages, (std::vector<ChatMessage>{{"assistant", "r"}}));
}

constexpr const char* kChats =
    R"("chosen": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "c"}],
       "rejected": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "r"}])";

TEST(PreferencePairs, MayHaveTheirPromptInBothChats) {
  const PreferencePair chat = Parse(std::string("{") + kChats + "}");
  EXPECT_EQ(chat.prompt_messages, (std::vector<ChatMessage>{{"user", "p"}}));
  EXPECT_EQ(chat.chosen_messages, (std::vector<ChatMessage>{{"assistant", "c"}}));
  EXPECT_EQ(chat.rejected_messages, (std::vector<ChatMessage>{{"assistant", "r"}}));
  EXPECT_EQ(Parse(std::string(R"({"prompt": "p", )") + kChats + "}").prompt_messages,
            chat.prompt_messages);
  ExpectUserError([&] { Parse(std::string(R"({"prompt": "q", )") + kChats + "}"); },
                  {"a.jsonl:3", "prompt"});
}

// As TRL splits them: a space before the place where they part belongs to the answers.
TEST(PreferencePairs, MayHaveTheirPromptInBothTexts) {
  const PreferencePair pair =
      Parse(R"({"chosen": "The sky is blue", "rejected": "The sky is red"})");
  EXPECT_EQ(pair.prompt, "The sky is");
  EXPECT_EQ(pair.chosen, " blue");
  EXPECT_EQ(pair.rejected, " red");
  // ä and ö begin with the same byte.
  EXPECT_EQ(Parse("{\"chosen\": \"x\xc3\xa4\", \"rejected\": \"x\xc3\xb6\"}").prompt, "x");
}

TEST(PreferencePairs, AreRefusedByName) {
  const auto refuses = [](const std::string& text, const std::string& key) {
    ExpectUserError([&] { Parse(text); }, {"a.jsonl:3", key});
  };
  refuses(R"({"prompt": "p", "chosen": "c"})", "rejected");
  refuses(R"({"prompt": "p", "rejected": "c"})", "chosen");
  refuses(R"({"prompt": "p", "chosen": "c", "rejected": [{"role": "user", "content": "r"}]})",
          "different kinds");
  refuses(R"({"prompt": [{"role": "user", "content": "p"}], "chosen": "c", "rejected": "r"})",
          "prompt");
  refuses(R"({"prompt": "p", "chosen": [{"role": "assistant", "content": "a"}],
              "rejected": [{"role": "assistant", "content": "b"}]})",
          "different kinds");
  refuses(R"({"prompt": [{"role": "user", "content": "p"}],
              "chosen": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "a"}],
              "rejected": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "b"}]})",
          "begin with it, too; leave it out");
  refuses(R"({"chosen": "same", "rejected": "same"})", "the same as chosen");
  refuses(R"({"chosen": "a", "rejected": "b"})", "prompt");
  refuses(R"({"chosen": [{"role": "user", "content": "a"}],
              "rejected": [{"role": "user", "content": "b"}]})",
          "prompt");
  refuses(R"({"chosen": [{"role": "user", "content": "a"}],
              "rejected": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})",
          "has no answer");
}

DataOptions Options(const std::string& train, int64_t sequence) {
  DataOptions options;
  options.train = {{.files = {train}}};
  options.tokenizer = "byte";
  options.vocab = 256;
  options.packing = Packing::kBestFit;
  options.sequence = sequence;
  options.split.chats.pairs = true;
  return options;
}

constexpr const char* kLines =
    "{\"prompt\": \"2+2=\", \"chosen\": \"4\", \"rejected\": \"22\"}\n"
    "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n";

struct Row {
  std::string tokens, targets;  // '.': 0, or no loss; '|': the end of a text
  std::vector<int32_t> positions;
  std::vector<float> reference;
};
Row Get(const PackedRows& rows, int64_t number) {
  const auto size = static_cast<size_t>(rows.options().sequence);
  std::vector<int32_t> tokens(size), targets(size);
  Row row = {.tokens = "", .targets = "", .positions = tokens, .reference = {}};
  row.reference.resize(size);
  rows.Read(number, {tokens.data(), targets.data(), row.positions.data(), row.reference.data()});
  const auto text = [](int32_t id) {
    return id == kNo || id == 0 ? '.' : id == '\n' ? '|' : static_cast<char>(id);
  };
  for (const int32_t id : tokens) row.tokens += text(id);
  for (const int32_t id : targets) row.targets += text(id);
  return row;
}

TEST(PreferencePairs, AreTwoDocumentsOfARow) {
  const TempFolder folder;
  const DataSet set = OpenData(Options(folder.Write("pairs.jsonl", kLines), 20));
  const PackedRows& rows = *set.train[0].rows;
  ASSERT_EQ(rows.rows(), 1);
  EXPECT_EQ(rows.counts().pairs, 2);
  EXPECT_EQ(rows.CountTargets(0), 2) << "pairs";
  EXPECT_EQ(rows.CountTokens(0), 19);
  const Row row = Get(rows, 0);
  EXPECT_EQ(row.tokens, "2+2=4|2+2=22|ab|ac|.");
  EXPECT_EQ(row.targets, "...4|....22|.b|.c|..");
  EXPECT_EQ(row.positions,
            (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 0, 1, 2, 0}));
}

TEST(PreferencePairs, HaveTheirReferencesAtTheirFirstTokens) {
  const TempFolder folder;
  const DataSet set = OpenData(Options(folder.Write("pairs.jsonl", kLines), 20));
  const PackedRows& rows = *set.train[0].rows;
  EXPECT_EQ(Get(rows, 0).reference, std::vector<float>(20, 0.0F));
  ASSERT_EQ(rows.texts(), 4);
  for (int i = 0; i < 4; ++i)
    rows.references()[static_cast<size_t>(i)] = static_cast<float>(-1 - i);
  std::vector<float> expected(20, 0.0F);
  expected[0] = -1;
  expected[6] = -2;
  expected[13] = -3;
  expected[16] = -4;
  EXPECT_EQ(Get(rows, 0).reference, expected);
}

TEST(PreferencePairs, GoAloneWithoutPacking) {
  const TempFolder folder;
  DataOptions options = Options(folder.Write("pairs.jsonl", kLines), 20);
  options.packing = Packing::kNone;
  const DataSet set = OpenData(options);
  const PackedRows& rows = *set.train[0].rows;
  ASSERT_EQ(rows.rows(), 2);
  // Files' examples have an order of their own.
  EXPECT_EQ((std::set{Get(rows, 0).tokens, Get(rows, 1).tokens}),
            (std::set<std::string>{"2+2=4|2+2=22|.......", "ab|ac|.............."}));
  EXPECT_EQ(rows.FirstText(2), 4);
  EXPECT_EQ(rows.CountTargets(1), 1);
}

// The longer text of a pair loses tokens first.
TEST(PreferencePairs, ThatAreTooLongLoseTheirEnds) {
  const TempFolder folder;
  const std::string path =
      folder.Write("pairs.jsonl",
                   "{\"prompt\": \"p\", \"chosen\": \"cccccccc\", \"rejected\": \"r\"}\n"
                   "{\"prompt\": \"long prompt\", \"chosen\": \"c\", \"rejected\": \"r\"}\n");
  DataOptions options = Options(path, 10);
  const DataSet set = OpenData(options);
  const PackedRows& rows = *set.train[0].rows;
  ASSERT_EQ(rows.rows(), 1);
  EXPECT_EQ(Get(rows, 0).tokens, "pccccccpr|");
  EXPECT_EQ(Get(rows, 0).targets, "cccccc.r|.");
  EXPECT_EQ(rows.counts().too_long, 2);
  EXPECT_EQ(rows.counts().without_targets, 1) << "nothing but its prompt is left of the second";
  const std::vector<const PackedRows*> parts = {&rows};
  const std::string text = PackingText(parts);
  EXPECT_NE(text.find("2 pairs in 1 row"), text.npos) << text;
  EXPECT_NE(text.find("lost the ends"), text.npos) << text;
  options.too_long = TooLong::kDrop;
  ExpectUserError([&] { OpenData(options); }, {"data.train", "no pair is left", "model.sequence"});
}

TEST(PreferencePairs, AreToldApartByTokensAndLoss) {
  const TempFolder folder;
  const auto hash = [&](const std::string& prompt, const std::string& chosen) {
    const DataSet set = OpenData(
        Options(folder.Write("one.jsonl", "{\"prompt\": \"" + prompt + "\", \"chosen\": \"" +
                                              chosen + "\", \"rejected\": \"r\"}\n"),
                20));
    return set.train[0].rows->HashOfText(0);
  };
  EXPECT_EQ(hash("ab", "c"), hash("ab", "c"));
  EXPECT_NE(hash("ab", "c"), hash("a", "bc"));
  EXPECT_NE(hash("ab", "c"), hash("ab", "d"));
}

TEST(PreferencePairs, CountAsSamplesOfASource) {
  const TempFolder folder;
  DataOptions options = Options(folder.Write("pairs.jsonl", kLines), 20);
  options.eval = {folder.Write("held_out.jsonl", kLines)};
  const TokenData data(OpenData(options), {.batch = 1, .sequence = 20}, 256, false);
  EXPECT_EQ(data.CountTargets("", 0, 1), 2);
  EXPECT_EQ(data.PreferenceRows().size(), 2u);
  const auto held_out = data.HeldOut(0);
  EXPECT_EQ(held_out->CountTargets("", 0, 4), 2);
  ASSERT_EQ(held_out->PreferenceRows().size(), 1u);
  EXPECT_EQ(held_out->PreferenceRows()[0], data.PreferenceRows()[1]) << "one memory of references";
}

TEST(PreferencePairs, AreAskedForByTheirKey) {
  const TempFolder folder;
  DataOptions options = Options(folder.Write("pairs.jsonl", kLines), 20);
  options.split.chats.pairs = false;
  ExpectUserError([&] { OpenData(options); }, {"pairs.jsonl:1", "chosen", "preference.loss"});
  options.split.chats.pairs = true;
  options.train = {{.files = {folder.Write("text.txt", "no pairs")}}};
  ExpectUserError([&] { OpenData(options); }, {"preference.loss", "text.txt"});
}

// The prompt ends where it and the complete chats differ, with the beginning of the answer's turn.
TEST(PreferencePairs, OfChatsAreEncodedAsCompleteChats) {
  NEEDS_JINJA2();
  const TempFolder folder;
  DataOptions options = Options(folder.Write(
                                    "chats.jsonl", std::string("{") +
                                                       [] {
                                                         std::string line = kChats;
                                                         std::erase(line, '\n');
                                                         return line;
                                                       }() +
                                                       "}\n"),
                                200);
  options.split.chats.chat_template = "chatml";
  const DataSet set = OpenData(options);
  const Row row = Get(*set.train[0].rows, 0);
  const std::string prompt = "<|im_start|>user|p<|im_end|>|<|im_start|>assistant|";
  EXPECT_EQ(row.tokens.substr(0, 2 * (prompt.size() + 12)),
            prompt + "c<|im_end|>|" + prompt + "r<|im_end|>|");
  const std::string none(prompt.size() - 1, '.');
  EXPECT_EQ(row.targets.substr(0, 2 * (prompt.size() + 12)),
            none + "c<|im_end|>|." + none + "r<|im_end|>|.");
}

}  // namespace
}  // namespace plimsoll::data
