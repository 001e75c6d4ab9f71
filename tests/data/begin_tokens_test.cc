// With which tokens texts begin: as transformers has it, for each kind of data.
#include "data/tokenizers/begin_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokens/dataset.h"
#include "data/tokens/packed_rows.h"
#include "tests/data/byte_folder.h"
#include "tests/data/sources.h"
#include "tests/support/expect_error.h"
#include "tests/support/needs_jinja2.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

constexpr int32_t kNo = kIgnoredTarget;
const std::string kFixtures = "tests/data/tokenizers/";

// Writes a folder as tests/data/tokenizers/make_begins.py has made it.
void WriteFolder(const TempFolder& folder, const json& made) {
  const bool old = made.at("base") == "vocab.json";
  json file = json::parse(
      ReadFile(kFixtures + (old ? "gpt2_style.json" : made.at("base").get<std::string>())));
  if (old) {
    json vocab = file["model"]["vocab"];
    for (const json& token : file["added_tokens"]) vocab[token["content"]] = token["id"];
    std::string merges = "#version: 0.2\n";
    for (const json& merge : file["model"]["merges"]) merges += merge.get<std::string>() + "\n";
    folder.Write("vocab.json", vocab.dump());
    folder.Write("merges.txt", merges);
  } else {
    file["post_processor"] = made.at("post_processor");
    folder.Write("tokenizer.json", file.dump());
  }
  folder.Write("tokenizer_config.json", made.at("config").dump());
}

// The ids of all training data in a file.
Ids ReadAs(const TempFolder& folder, const std::string& name, const std::string& text, bool pairs) {
  DataOptions options;
  options.train = {{.files = {folder.Write(name, text)}}};
  options.tokenizer = folder.path();
  options.sequence = 64;
  options.split.chats.pairs = pairs;
  if (pairs) options.packing = Packing::kNone;
  return ReadAll(*OpenData(options).train.at(0).sources.at(0));
}

TEST(BeginTokens, AreThoseOfTransformersInEachKindOfData) {
  const json all = json::parse(ReadFile(kFixtures + "begins.expected.json"));
  ASSERT_GE(all.size(), 12u);
  size_t with = 0;
  for (const json& made : all) {
    SCOPED_TRACE(made.at("name"));
    const TempFolder folder;
    WriteFolder(folder, made);
    const auto tokenizer = LoadTokenizer(folder.path());
    EXPECT_EQ(tokenizer->facts().begins, made.at("begin").get<Ids>());
    with += !tokenizer->facts().begins.empty();
    const std::string text = made.at("text");
    const std::string quoted = json(text).dump();
    Ids ids = made.at("ids");
    ids.push_back(tokenizer->EndOfText().value());
    EXPECT_EQ(ReadAs(folder, "a.txt", text, false), ids);
    EXPECT_EQ(ReadAs(folder, "a.jsonl", "{\"text\": " + quoted + "}", false), ids);
    const std::string prompt = "{\"prompt\": " + quoted;
    EXPECT_EQ(ReadAs(folder, "a.jsonl", prompt + ", \"completion\": \"\"}", false), ids);
    const Ids pair =
        ReadAs(folder, "a.jsonl", prompt + ", \"chosen\": \"\", \"rejected\": \"no\"}", true);
    EXPECT_EQ(Ids(pair.begin(), pair.begin() + std::ssize(ids)), ids);
    EXPECT_TRUE(std::equal(ids.begin(), ids.end() - 1, pair.begin() + std::ssize(ids)));
  }
  EXPECT_GE(with, 8u);
}

class BeginsOfData : public testing::Test {
 protected:
  BeginsOfData() {
    WriteByteFolder(folder);
    const auto tokenizer = LoadTokenizer(folder.path());
    for (const char letter : {'x', 'y', 'z'}) {
      letters.push_back(tokenizer->TokenId(std::string(1, letter)).value());
    }
    options.tokenizer = folder.path();
    options.vocab = 258;
    options.sequence = 8;
  }

  DataSet Open(const std::string& name, const std::string& text) {
    options.train = {{.files = {folder.Write(name, text)}}};
    return OpenData(options);
  }
  // The ids of all training data, and which of them are ignored as targets.
  std::pair<Ids, Ids> Read(const std::string& name, const std::string& text) {
    const DataSet set = Open(name, text);
    const TokenSource& source = *set.train.at(0).sources.at(0);
    Ids ids = ReadAll(source), targets = ids;
    source.MaskTargets(0, source.size(), targets.data());
    return {ids, targets};
  }

  const TempFolder folder;
  Ids letters;
  DataOptions options;
};

TEST_F(BeginsOfData, DocumentsBeginWithATarget) {
  const int32_t x = letters[0], y = letters[1];
  const auto [ids, targets] = Read("a.txt", "x");
  EXPECT_EQ(ids, (Ids{kBegin, x, kEnd}));
  EXPECT_EQ(targets, ids);
  options.split.delimiter = "%";  // which shuffles the documents
  const std::string two = "x\n%\ny\n%\n";
  const Ids both = Read("b.txt", two).first;
  EXPECT_EQ(both.front(), kBegin);
  EXPECT_EQ(both.back(), kEnd);
  EXPECT_EQ(std::ranges::count(both, kBegin), 2);
  EXPECT_EQ(std::ranges::count(both, y), 1);
  options.text_tokens.begins = false;
  EXPECT_EQ(std::ranges::count(Read("b.txt", two).first, kBegin), 0);
}

TEST_F(BeginsOfData, ExamplesBeginWithNoTarget) {
  const int32_t x = letters[0], y = letters[1];
  const auto [ids, targets] = Read("a.jsonl", R"({"prompt": "x", "completion": "y"})");
  EXPECT_EQ(ids, (Ids{kBegin, x, y, kEnd}));
  EXPECT_EQ(targets, (Ids{kNo, kNo, y, kEnd}));
  EXPECT_EQ(Read("a.jsonl", R"({"text": "x"})"),
            std::pair(Ids({kBegin, x, kEnd}), Ids({kNo, x, kEnd})));
  EXPECT_EQ(Read("a.jsonl", R"({"prompt": "", "completion": "y"})").first, (Ids{kBegin, y, kEnd}));
  options.text_tokens.begins = false;
  EXPECT_EQ(Read("a.jsonl", R"({"text": "x"})").first, (Ids{x, kEnd}));
}

TEST_F(BeginsOfData, BothAnswersOfAPairFollowOnePrompt) {
  const int32_t x = letters[0], y = letters[1], z = letters[2];
  options.split.chats.pairs = true;
  options.packing = Packing::kBestFit;
  EXPECT_EQ(Read("a.jsonl", R"({"prompt": "x", "chosen": "y", "rejected": "z"})"),
            std::pair(Ids({kBegin, x, y, kEnd, kBegin, x, z, kEnd}),
                      Ids({kNo, kNo, y, kEnd, kNo, kNo, z, kEnd})));
  EXPECT_EQ(Read("a.jsonl", R"({"prompt": "", "chosen": "y", "rejected": "z"})").first,
            (Ids{kBegin, y, kEnd, kBegin, z, kEnd}));
}

TEST_F(BeginsOfData, LongExamplesKeepItInTheirFirstPiece) {
  options.packing = Packing::kNone;
  options.sequence = 2;
  for (const TooLong too_long : {TooLong::kTruncate, TooLong::kSplit}) {
    options.too_long = too_long;
    const DataSet set = Open("a.jsonl", R"({"text": "xy"})");
    const PackedRows& rows = *set.train.at(0).rows;
    ASSERT_EQ(rows.rows(), too_long == TooLong::kSplit ? 2 : 1);
    Ids tokens(2), targets(2);
    rows.Read(0, {tokens.data(), targets.data()});
    EXPECT_EQ(tokens, (Ids{kBegin, letters[0]}));
    EXPECT_EQ(targets, (Ids{letters[0], kNo}));
    if (rows.rows() == 1) continue;
    rows.Read(1, {tokens.data(), targets.data()});
    EXPECT_EQ(tokens, (Ids{letters[1], kEnd}));
  }
}

TEST_F(BeginsOfData, ChatsBeginAsTheirTemplateSays) {
  NEEDS_JINJA2();
  options.split.chats.chat_template =
      folder.Write("t.jinja", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
  options.split.chats.loss_on = LossOn::kAll;
  EXPECT_EQ(Read("a.jsonl", R"({"messages": [{"role": "user", "content": "x"}]})").first,
            (Ids{kBegin, letters[0]}));
  options.split.chats.chat_template =
      folder.Write("u.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(Read("a.jsonl", R"({"messages": [{"role": "user", "content": "x"}]})").first,
            (Ids{letters[0]}));
}

TEST_F(BeginsOfData, EndsMayBeChosen) {
  const int32_t x = letters[0], z = letters[2];
  options.text_tokens.end = "z";
  EXPECT_EQ(Read("a.txt", "x").first, (Ids{kBegin, x, z}));
  EXPECT_EQ(Read("a.jsonl", R"({"text": "x"})").first, (Ids{kBegin, x, z}));
  options.text_tokens.end = "<none>";
  ExpectUserError([&] { Open("a.txt", "x"); }, {"data.end: '<none>' is no token"});
}

TEST_F(BeginsOfData, ATokenAtBothEndsDoesNotKeepDocumentsApart) {
  options.documents_apart = true;
  options.text_tokens.end = "<b>";
  ExpectUserError([&] { Open("a.txt", "x"); }, {"data.documents", "data.begin: none"});
  options.text_tokens.begins = false;
  EXPECT_EQ(Read("a.txt", "x").first, (Ids{letters[0], kBegin}));
}

}  // namespace
}  // namespace plimsoll::data
