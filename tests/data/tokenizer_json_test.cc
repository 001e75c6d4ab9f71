// Tokenizer files that are damaged, hostile or use unsupported features.
#include "data/tokenizers/tokenizer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/stripping_tokenizers.h"
#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

using Json = nlohmann::json;

// UTF-8 of a code point below U+0800.
std::string Utf8(int code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// The 256 byte tokens: printable bytes stand for themselves, the others are from U+0100 on.
Json ByteVocab() {
  Json vocab = Json::object();
  int next = 256, id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    vocab[Utf8(printable ? byte : next++)] = id++;
  }
  return vocab;
}

// A minimal valid file: bytes and the merge "ab".
Json Good() {
  Json file;
  file["model"]["type"] = "BPE";
  file["model"]["vocab"] = ByteVocab();
  file["model"]["vocab"]["ab"] = 256;
  file["model"]["merges"] = {"a b"};
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  file["normalizer"] = nullptr;
  file["added_tokens"] = Json::array();
  return file;
}

Json Added(const std::string& content, int64_t id) {
  return {{"content", content}, {"id", id}, {"special", true}};
}

// The same for characters, with byte fallback.
Json GoodCharacters() {
  Json file;
  file["model"] = {{"type", "BPE"}, {"byte_fallback", true}, {"unk_token", "<unk>"}};
  Json& vocab = file["model"]["vocab"];
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = byte;
  }
  for (const char* token : {"_", "a", "b", "ab", "_ab"}) vocab[token] = vocab.size();
  file["model"]["merges"] = {"a b", "_ ab"};
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"split", false}};
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", "_"}}}, {"content", " "}};
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders", {replace, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  return file;
}

std::vector<int32_t> Encode(const Json& file, const std::string& text) {
  return ParseTokenizerJson(file.dump(), "t.json")->Encode(text);
}

// Expects that `edit` turns the valid file into an error with `parts`.
template <typename Edit>
void ExpectBad(Edit edit, std::initializer_list<std::string_view> parts, Json file = Good()) {
  edit(file);
  ExpectUserError([&] { ParseTokenizerJson(file.dump(), "t.json"); }, parts);
}

TEST(TokenizerJson, SmallestFile) {
  EXPECT_EQ(Encode(Good(), "abcab ab"), (std::vector<int32_t>{256, 'c', 256, ' ', 256}));
}

TEST(TokenizerJson, AddedTokensMatchLeftmostThenLongest) {
  Json file = Good();
  file["added_tokens"] = {Added("<x", 300), Added("<x>", 301), Added("x>", 302)};
  EXPECT_EQ(Encode(file, "<x>x><x<x>>"), (std::vector<int32_t>{301, 302, 300, 301, '>'}));
}

TEST(TokenizerJson, AddedTokensTakeWhiteSpaceAsTokenizersDo) {
  for (const StrippingTokenizer& of : StrippingTokenizers()) {
    SCOPED_TRACE(of.name);
    EXPECT_GE(of.cases.size(), 10u);
    for (const auto& [text, ids] : of.cases) EXPECT_EQ(of.tokenizer->Encode(text), ids) << text;
  }
}

TEST(TokenizerJson, ATokenThatIsNoWordAloneStaysText) {
  Json file = Good();
  file["added_tokens"] = {Added("<x>", 300), Added("x>y", 301)};
  file["added_tokens"][0]["single_word"] = true;
  EXPECT_EQ(Encode(file, "-<x>."), (std::vector<int32_t>{'-', 300, '.'}));
  // What is left of it holds no other token.
  EXPECT_EQ(Encode(file, "<x>y"), (std::vector<int32_t>{'<', 'x', '>', 'y'}));
  EXPECT_EQ(Encode(file, "a<x>"), (std::vector<int32_t>{'a', '<', 'x', '>'}));
  file["added_tokens"][0]["lstrip"] = 1;
  ExpectUserError([&] { ParseTokenizerJson(file.dump(), "t.json"); }, {"added_tokens[0].lstrip"});
}

TEST(TokenizerJson, EmptyAndAbsentFeaturesAreOff) {
  Json file = Good();
  file["model"]["dropout"] = nullptr;
  file["model"]["continuing_subword_prefix"] = "";
  file["model"]["byte_fallback"] = false;
  file["truncation"] = nullptr;
  file.erase("normalizer");
  file.erase("added_tokens");
  EXPECT_EQ(Encode(file, "ab"), (std::vector<int32_t>{256}));
}

TEST(TokenizerJson, UnsupportedFeaturesAreNamed) {
  ExpectBad([](Json& f) { f["model"]["type"] = "Unigram"; }, {"t.json: model.type", "Unigram"});
  ExpectBad([](Json& f) { f["model"]["dropout"] = 0.1; }, {"model.dropout", "0.1"});
  ExpectBad([](Json& f) { f["model"]["byte_fallback"] = true; },
            {"t.json", "byte_fallback", "no token <0x00>"});
  ExpectBad([](Json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, {"</w>"});
  ExpectBad(
      [](Json& f) {
        f["normalizer"] = {{"type", "Lowercase"}};
      },
      {"normalizer.type", "Lowercase"});
  ExpectBad([](Json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; },
            {"pre_tokenizer.add_prefix_space"});
  ExpectBad([](Json& f) { f["pre_tokenizer"] = {{"type", "Metaspace"}}; }, {"Metaspace"});
  ExpectBad([](Json& f) { f["pre_tokenizer"] = nullptr; }, {"pre_tokenizer", "ByteLevel"});
  const auto split = [](const char* pattern, const char* behavior) {
    return [=](Json& f) {
      const Json part = {
          {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behavior}};
      f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {part, f["pre_tokenizer"]}}};
    };
  };
  ExpectBad(split("a", "Removed"), {"pre_tokenizer.pretokenizers[0].behavior", "Removed"});
  ExpectBad(split("(", "Isolated"), {"pretokenizers[0].pattern.Regex", "not understood"});
  ExpectBad(split("[\\S]", "Isolated"), {"\\S inside []"});
}

TEST(TokenizerJson, SmallestFileOfCharacters) {
  Json file = GoodCharacters();
  EXPECT_EQ(Encode(file, "ab abc"), (std::vector<int32_t>{260, 260, 'c'}));
  // Older files don't have the scheme.
  file["pre_tokenizer"]["add_prefix_space"] = false;
  EXPECT_EQ(Encode(file, "ab abc"), (std::vector<int32_t>{259, 260, 'c'}));
  file["pre_tokenizer"] = nullptr;
  EXPECT_EQ(Encode(file, "ab ab"), (std::vector<int32_t>{259, ' ', 259}));
  const auto tokenizer = ParseTokenizerJson(file.dump(), "t.json");
  EXPECT_EQ(tokenizer->Decode({260, 'c', 999}), " abc\xEF\xBF\xBD");
}

TEST(TokenizerJson, UnsupportedFeaturesOfCharactersAreNamed) {
  const auto expect = [](auto edit, std::initializer_list<std::string_view> parts) {
    ExpectBad(edit, parts, GoodCharacters());
  };
  expect([](Json& f) { f["model"]["ignore_merges"] = true; }, {"model.ignore_merges"});
  expect([](Json& f) { f["model"]["vocab"].erase("<0xE2>"); }, {"no token <0xE2>"});
  expect([](Json& f) { f["model"]["vocab"][""] = 300; }, {"empty token"});
  expect(
      [](Json& f) {
        f["model"]["vocab"]["a<0x0A>"] = 300;
        f["model"]["merges"] = {"a <0x0A>"};
      },
      {"model.merges[0]", "token of a byte"});
  expect([](Json& f) { f["pre_tokenizer"]["type"] = "ByteLevel"; },
         {"pre_tokenizer.type", "ByteLevel", "byte_fallback"});
  // Gemma's pre-tokenizer splits at what its normalizer leaves nowhere.
  const auto split_at = [](Json& f, const char* replaced, const char* content) {
    f["normalizer"] = {
        {"type", "Replace"}, {"pattern", {{"String", replaced}}}, {"content", content}};
    f["pre_tokenizer"] = {{"type", "Split"},
                          {"pattern", {{"String", " "}}},
                          {"behavior", "MergedWithPrevious"},
                          {"invert", false}};
  };
  Json gemma = GoodCharacters();
  split_at(gemma, " ", "_");
  EXPECT_EQ(Encode(gemma, "ab ab"), (std::vector<int32_t>{259, 260}));
  for (const auto& [replaced, content] : {std::pair{"a", "_"}, std::pair{" ", "_ "}}) {
    expect([&](Json& f) { split_at(f, replaced, content); },
           {"pre_tokenizer.pattern.String", "unless the normalizer replaces it"});
  }
  expect(
      [&](Json& f) {
        split_at(f, " ", "_");
        f["pre_tokenizer"]["invert"] = true;
      },
      {"pre_tokenizer.invert"});
  expect([](Json& f) { f["pre_tokenizer"]["prepend_scheme"] = "last"; },
         {"pre_tokenizer.prepend_scheme", "last"});
  expect([](Json& f) { f["pre_tokenizer"]["replacement"] = ""; },
         {"pre_tokenizer.replacement", "empty"});
  expect(
      [](Json& f) {
        f["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", ""}};
      },
      {"normalizer.pattern.String"});
  expect([](Json& f) { f["decoder"] = nullptr; }, {"decoder", "ByteFallback"});
  expect([](Json& f) { f["decoder"]["decoders"].erase(1); }, {"decoder.decoders[1].type", "Fuse"});
  expect([](Json& f) { f["decoder"]["decoders"].erase(2); }, {"decoder.decoders", "Fuse"});
  expect(
      [](Json& f) {
        f["decoder"]["decoders"].push_back(
            {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}});
      },
      {"decoder.decoders[3]", "strips"});
}

TEST(TokenizerJson, DamagedFilesAreErrors) {
  const auto parse = [](const std::string& text) { ParseTokenizerJson(text, "t.json"); };
  ExpectUserError([&] { parse(""); }, {"t.json"});
  ExpectUserError([&] { parse("{\"model\": "); }, {"t.json", "JSON"});
  ExpectUserError([&] { parse("[]"); }, {"t.json", "model"});
  ExpectUserError([&] { parse("{\"model\": 3}"); }, {"t.json: model", "no object"});
  ExpectUserError([&] { parse(std::string(100000, '[')); }, {"t.json"});
  ExpectBad([](Json& f) { f["model"].erase("vocab"); }, {"model.vocab"});
  ExpectBad([](Json& f) { f["model"]["vocab"]["a"] = "x"; }, {"model.vocab", "'a'"});
  ExpectBad([](Json& f) { f["model"]["vocab"].erase("q"); }, {"t.json", "byte 0x71"});
  ExpectBad([](Json& f) { f["model"]["vocab"]["zz"] = 2000000000; }, {"zz", "2000000000"});
  ExpectBad([](Json& f) { f["model"]["vocab"]["zz"] = -1; }, {"zz", "-1"});
  ExpectBad([](Json& f) { f["model"]["vocab"]["zz"] = ~uint64_t{0}; }, {"zz"});
  ExpectBad([](Json& f) { f["model"]["merges"] = {"ab c"}; }, {"model.merges[0]", "abc"});
  ExpectBad([](Json& f) { f["model"]["merges"] = {"a b", "nospace"}; }, {"model.merges[1]"});
  ExpectBad([](Json& f) { f["model"]["merges"] = {{"a"}}; }, {"merges[0]", "pair"});
  ExpectBad([](Json& f) { f["model"]["merges"] = "a b"; }, {"model.merges", "no list"});
  ExpectBad([](Json& f) { f["added_tokens"] = {Added("", 300)}; }, {"added_tokens[0].content"});
  ExpectBad([](Json& f) { f["added_tokens"] = {Added("x", 1 << 30)}; }, {"added_tokens[0].id"});
  ExpectBad([](Json& f) { f["added_tokens"] = {Added("x", -5)}; }, {"added_tokens[0].id"});
}

TEST(Gpt2Files, DamagedFilesAreErrors) {
  Json vocab = ByteVocab();
  vocab["ab"] = 256;
  const auto parse = [&](const std::string& merges) {
    return ParseGpt2Files(vocab.dump(), "encoder.json", merges, "vocab.bpe");
  };
  EXPECT_EQ(parse("#version: 0.2\na b\n")->Encode("ab"), (std::vector<int32_t>{256}));
  EXPECT_EQ(parse("a b\r\n")->Encode("ab"), (std::vector<int32_t>{256}));
  ExpectUserError([&] { parse("#version: 0.2\na b\na\n"); }, {"vocab.bpe:3"});
  ExpectUserError([&] { parse("#version: 0.2\na b c\n"); }, {"vocab.bpe:2"});
  ExpectUserError([&] { parse("#version: 0.2\na c\n"); }, {"vocab.bpe:2", "'ac'"});
  ExpectUserError([] { ParseGpt2Files("[]", "encoder.json", "", "vocab.bpe"); }, {"encoder.json"});
}

}  // namespace
}  // namespace plimsoll::data
