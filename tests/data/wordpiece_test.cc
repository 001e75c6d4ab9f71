// WordPiece, compared with transformers' BertTokenizer (tests/data/tokenizers/make_wordpiece.py).
#include "data/tokenizers/wordpiece.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_json.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const std::string kFixtures = "tests/data/tokenizers/";

// The tokenizer_config.json of each kind, as the script writes it.
const std::map<std::string, Json> kConfigs = {
    {"uncased", {{"do_lower_case", true}}},
    {"cased", {{"do_lower_case", false}}},
    {"accents", {{"do_lower_case", true}, {"strip_accents", false}}},
    {"stripped", {{"do_lower_case", false}, {"strip_accents", true}}},
    {"unsplit", {{"do_lower_case", true}, {"tokenize_chinese_chars", false}}}};

std::string Vocab() { return ReadFile(kFixtures + "wordpiece_vocab.txt"); }

std::unique_ptr<Tokenizer> Parse(const std::string& vocab, const Json& config = Json::object()) {
  return ParseWordPieceFiles(vocab, "vocab.txt", TokenizerConfig(config.dump(), "config.json"));
}

// A tokenizer.json that means the same.
Json TokenizerJson(const Json& config) {
  Json vocab = Json::object();
  Json added = Json::array();
  const std::string lines = Vocab();
  int id = 0;
  for (size_t begin = 0; begin < lines.size(); ++id) {
    const size_t end = lines.find('\n', begin);
    vocab[lines.substr(begin, end - begin)] = id;
    begin = end + 1;
  }
  for (const std::string_view token : kBertSpecialTokens) {
    added.push_back({{"id", vocab[std::string(token)]},
                     {"content", token},
                     {"special", true},
                     {"normalized", false}});
  }
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", config.value("tokenize_chinese_chars", true)},
            {"strip_accents", config.value("strip_accents", Json())},
            {"lowercase", config["do_lower_case"]}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab}}}};
}

TEST(WordPiece, EncodesAsBertTokenizer) {
  const Json examples = Json::parse(ReadFile(kFixtures + "wordpiece.expected.json"));
  ASSERT_GE(examples.size(), 250u);
  for (const auto& [name, config] : kConfigs) {
    SCOPED_TRACE(name);
    const auto of_lines = Parse(Vocab(), config);
    const auto of_json = ParseTokenizerJson(TokenizerJson(config).dump(), "tokenizer.json");
    for (const Json& example : examples) {
      SCOPED_TRACE(example.at("text").dump());
      const auto text = example.at("text").get<std::string>();
      const auto ids = example.at("ids").at(name).get<Ids>();
      EXPECT_EQ(of_lines->Encode(text), ids);
      EXPECT_EQ(of_lines->Encode(text), ids) << "words seen before are encoded otherwise";
      EXPECT_EQ(of_json->Encode(text), ids);
    }
  }
}

const std::string kSmall = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nable\n,\n";

TEST(WordPiece, CutsTheLongestPiecesFirst) {
  const auto tokenizer = Parse(kSmall);
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_EQ(tokenizer->Encode("Unaffable, able unknown"), (Ids{5, 6, 7, 9, 8, 1}));
  EXPECT_EQ(tokenizer->Encode("[CLS]un[MASK][mask]"), (Ids{2, 5, 4, 1, 1, 1}));
  EXPECT_EQ(tokenizer->TokenId("[MASK]"), 4);
  EXPECT_EQ(tokenizer->TokenId("aff"), std::nullopt);
  EXPECT_EQ(tokenizer->EndOfText(), 3);
  EXPECT_EQ(tokenizer->ContinuesWord(6), true);
  EXPECT_EQ(tokenizer->ContinuesWord(8), false);
  EXPECT_EQ(MakeByteTokenizer()->ContinuesWord(8), std::nullopt);
}

TEST(WordPiece, PassesOverBytesThatAreNoUtf8) {
  const auto tokenizer = Parse(kSmall);
  EXPECT_EQ(tokenizer->Encode("u\xffn\xc3 \xe2\x82 able\xf0"), (Ids{5, 8}));
  EXPECT_EQ(tokenizer->Encode(std::string("\xff\xfe\0", 3)), Ids{});
}

TEST(WordPiece, JoinsPiecesWhenItDecodes) {
  const auto tokenizer = Parse(kSmall);
  EXPECT_EQ(tokenizer->Decode({5, 6, 7, 9, 8}), "unaffable , able");
  EXPECT_EQ(tokenizer->Decode({2, 6, 7, 99, -1}), "[CLS]affable \xEF\xBF\xBD \xEF\xBF\xBD");
  EXPECT_EQ(tokenizer->Decode({6, 7, 8}), "##affable able");
  EXPECT_EQ(tokenizer->Decode(Ids{}), "");
}

TEST(WordPiece, ReadsLinesAsPythonDoes) {
  std::string windows;
  for (const char c : kSmall) windows += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(Parse(windows)->Encode("unaffable"), (Ids{5, 6, 7}));
  // An empty line counts, and of equal tokens the last.
  const auto tokenizer = Parse("[UNK]\n\na\nb\na");
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->Encode("a b c"), (Ids{4, 3, 0}));
  EXPECT_EQ(tokenizer->Decode({2, 1}), "a \xEF\xBF\xBD");
}

TEST(WordPiece, TakesTokensFromItsConfig) {
  const Json config = {{"unk_token", {{"content", "<unk>"}}},
                       {"mask_token", "<mask>"},
                       {"additional_special_tokens", {"<x>"}},
                       {"added_tokens_decoder",
                        {{"4", {{"content", "<new>"}, {"special", true}, {"lstrip", true}}}}}};
  const auto tokenizer = Parse("<unk>\n<mask>\n<x>\na\n", config);
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->Encode("a<mask><MASK><x>b <new>"), (Ids{3, 1, 1, 2, 0, 4}));
  EXPECT_EQ(tokenizer->Named("mask_token"), 1);
  EXPECT_EQ(tokenizer->Named("sep_token"), std::nullopt);
}

TEST(WordPiece, IsFoundInItsFolder) {
  const TempFolder folder;
  folder.Write("vocab.txt", kSmall + "Un\n");
  EXPECT_EQ(LoadTokenizer(folder.path())->Encode("Unaffable"), (Ids{5, 6, 7}));
  folder.Write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(LoadTokenizer(folder.path())->Encode("Unaffable"), (Ids{10, 6, 7}));
  EXPECT_EQ(LoadTokenizer(folder / "vocab.txt")->Encode("Unaffable"), (Ids{10, 6, 7}));
  folder.Write("tokenizer.json", TokenizerJson(kConfigs.at("cased")).dump());
  EXPECT_GT(LoadTokenizer(folder.path())->vocab_size(), 100);
  ExpectUserError([&] { LoadTokenizer(folder / "other.txt"); }, {"other.txt", "vocab.txt"});
}

TEST(WordPiece, DamagedFilesAreErrors) {
  ExpectUserError([] { Parse(""); }, {"vocab.txt", "[UNK]"});
  ExpectUserError([] { Parse("a\nb\n"); }, {"vocab.txt", "[UNK]"});
  ExpectUserError([] { Parse("[UNK]\na\nb\xff\n"); }, {"vocab.txt:3", "UTF-8"});
  const auto expect = [](const Json& config, std::initializer_list<std::string_view> parts) {
    ExpectUserError([&] { Parse(kSmall, config); }, parts);
  };
  expect({{"do_lower_case", 1}}, {"config.json: do_lower_case"});
  expect({{"do_basic_tokenize", false}}, {"do_basic_tokenize", "not supported"});
  expect({{"never_split", {"a"}}}, {"never_split", "not supported"});
  expect({{"tokenizer_class", "BertJapaneseTokenizer"}}, {"tokenizer_class", "Japanese"});
  expect({{"unk_token", "<unk>"}}, {"config.json: unk_token", "<unk>"});
  expect({{"mask_token", 4}}, {"mask_token", "no string"});
  expect({{"added_tokens_decoder", {{"x", {{"content", "y"}}}}}}, {"added_tokens_decoder", "'x'"});
  expect({{"added_tokens_decoder", {{"99999", {{"content", "y"}}}}}}, {"99999", "out of range"});
  expect({{"added_tokens_decoder", {{"4", {{"content", ""}}}}}}, {"4.content", "empty"});
  expect({{"added_tokens_decoder", {{"4", {{"content", "y"}}}}}}, {"'y'", "next id is 10"});
  expect({{"added_tokens_decoder", {{"4", {{"content", "un"}}}}}}, {"'un' id 4", "gives it 5"});
  expect({{"added_tokens_decoder", {{"10", {{"content", "y"}, {"normalized", true}}}}}},
         {"10.normalized"});
  expect({{"additional_special_tokens", {"<none>"}}}, {"additional_special_tokens[0]", "<none>"});
  ExpectUserError([] { TokenizerConfig("{", "config.json"); }, {"config.json", "JSON"});
}

TEST(WordPiece, UnsupportedFeaturesOfTokenizerJsonAreNamed) {
  const auto expect = [](auto edit, std::initializer_list<std::string_view> parts) {
    Json file = TokenizerJson(kConfigs.at("uncased"));
    edit(file);
    ExpectUserError([&] { ParseTokenizerJson(file.dump(), "t.json"); }, parts);
  };
  expect([](Json& f) { f["normalizer"] = nullptr; }, {"t.json: normalizer", "BertNormalizer"});
  expect([](Json& f) { f["normalizer"] = {{"type", "NFC"}}; }, {"normalizer", "BertNormalizer"});
  expect([](Json& f) { f["normalizer"]["clean_text"] = false; }, {"normalizer.clean_text"});
  expect([](Json& f) { f["pre_tokenizer"]["type"] = "Whitespace"; }, {"BertPreTokenizer"});
  expect([](Json& f) { f["model"]["continuing_subword_prefix"] = "@"; }, {"prefix", "##"});
  expect(
      [](Json& f) {
        f["model"]["vocab"].erase("[UNK]");
        f["added_tokens"] = nullptr;
      },
      {"t.json", "[UNK]"});
  expect([](Json& f) { f["model"]["vocab"]["zz"] = 2000000000; }, {"model.vocab", "zz"});
  expect([](Json& f) { f["model"]["vocab"]["zz"] = "x"; }, {"model.vocab.zz", "no integer"});
  expect([](Json& f) { f["model"]["vocab"] = 3; }, {"model.vocab"});
  expect([](Json& f) { f["added_tokens"][0]["rstrip"] = 3; }, {"added_tokens[0].rstrip"});
  expect([](Json& f) { f["model"]["type"] = "Unigram"; }, {"Unigram", "WordPiece"});
}

}  // namespace
}  // namespace plimsoll::data
