// Encodings compared with those of Hugging Face's `tokenizers`
// (tests/data/tokenizers/make_tokenizers.py).
#include "data/tokenizers/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "data/tokenizers/unicode.h"
#include "tests/support/expect_error.h"
#include "tests/support/shared_folder.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

const std::string kFixtures = "tests/data/tokenizers/";

struct Example {
  std::string text;
  std::vector<int32_t> ids;
};

std::vector<Example> Expected(const std::string& name) {
  const MappedFile file(kFixtures + name + ".expected.json");
  std::vector<Example> examples;
  for (const auto& item : nlohmann::json::parse(file.text())) {
    Example example;
    example.text = item.at("text").get<std::string>();
    example.ids = item.at("ids").get<std::vector<int32_t>>();
    examples.push_back(example);
  }
  return examples;
}

// `round_trip` is false where normalisation changes the text.
void ExpectSameAsReference(const Tokenizer& tokenizer, const std::string& name, bool round_trip) {
  const std::vector<Example> examples = Expected(name);
  ASSERT_GT(examples.size(), 20u);
  for (const Example& example : examples) {
    SCOPED_TRACE(nlohmann::json(example.text).dump());
    const std::vector<int32_t> ids = tokenizer.Encode(example.text);
    EXPECT_EQ(ids, example.ids);
    if (round_trip) {
      EXPECT_EQ(tokenizer.Decode(ids), example.text);
    }
    EXPECT_EQ(tokenizer.Encode(example.text), ids) << "pieces seen before are encoded otherwise";
  }
}

TEST(Tokenizer, BytesAreTheirOwnIds) {
  const auto tokenizer = LoadTokenizer("byte");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  const std::string text("a\0\xff\xc3\xa9", 5);
  EXPECT_EQ(tokenizer->Encode(text), (std::vector<int32_t>{97, 0, 255, 0xc3, 0xa9}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  EXPECT_EQ(tokenizer->Decode({256, -1}), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_FALSE(tokenizer->EndOfText());
}

TEST(Tokenizer, Gpt2StyleFileEncodesAsTheReference) {
  const auto tokenizer = LoadTokenizer(kFixtures + "gpt2_style.json");
  EXPECT_EQ(tokenizer->vocab_size(), 601);
  EXPECT_EQ(tokenizer->EndOfText(), 600);
  ExpectSameAsReference(*tokenizer, "gpt2_style", true);
}

TEST(Tokenizer, Llama3StyleFileEncodesAsTheReference) {
  const auto tokenizer = LoadTokenizer(kFixtures + "llama3_style.json");
  EXPECT_EQ(tokenizer->TokenId("<|end_of_text|>"), tokenizer->EndOfText());
  EXPECT_TRUE(tokenizer->TokenId("<|begin_of_text|>"));
  EXPECT_FALSE(tokenizer->TokenId("<|nothing|>"));
  ExpectSameAsReference(*tokenizer, "llama3_style", true);
}

TEST(Tokenizer, Qwen2StyleFileEncodesAsTheReference) {
  const auto tokenizer = LoadTokenizer(kFixtures + "qwen2_style.json");
  ExpectSameAsReference(*tokenizer, "qwen2_style", false);
  // NFC: e and a combining acute become one character.
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("cafe\xCC\x81")), "caf\xC3\xA9");
}

// BPE of characters with byte fallback, as made from SentencePiece: Llama 2's file, the same file
// with added tokens matched in normalised text, as transformers 5 writes it, one with pieces of one
// word, and Gemma's, which puts no space before texts.
TEST(Tokenizer, Llama2StyleFilesEncodeAndDecodeAsTheReference) {
  for (const std::string name : {"llama2_style", "llama2_normalized_style", "metaspace_first_style",
                                 "metaspace_always_style", "gemma_style"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = LoadTokenizer(kFixtures + name + ".json");
    EXPECT_EQ(tokenizer->vocab_size(), 703);
    EXPECT_EQ(tokenizer->EndOfText(), 2);
    EXPECT_EQ(tokenizer->TokenId("<s>"), 1);
    ExpectSameAsReference(*tokenizer, name, false);
    const MappedFile decoded(kFixtures + name + ".decoded.json");
    for (const auto& item : nlohmann::json::parse(decoded.text())) {
      EXPECT_EQ(tokenizer->Decode(item.at("ids").get<std::vector<int32_t>>()),
                item.at("text").get<std::string>())
          << item;
    }
  }
}

TEST(Tokenizer, Llama2StyleTextComesBack) {
  const auto tokenizer = LoadTokenizer(kFixtures + "llama2_style.json");
  for (const std::string text : {"the load line", " a", "  two  spaces ", "\n\n",
                                 "\xe8\xb2\xa8 \xf0\x9f\x9a\xa2\xc3\xa9 x", ""}) {
    const std::vector<int32_t> ids = tokenizer->Encode(text);
    EXPECT_EQ(tokenizer->Decode(ids), text);
    // Decoded one by one, as in generation, the text keeps the space before it.
    std::string bytes;
    for (const int32_t id : ids) tokenizer->Decode(id, &bytes);
    EXPECT_EQ(bytes, text.empty() ? "" : " " + text);
  }
  // No space is put before a text that continues another.
  std::vector<int32_t> ids = tokenizer->Encode("the load");
  tokenizer->Encode(" line", &ids, Tokenizer::Place::kWithin);
  EXPECT_EQ(ids, tokenizer->Encode("the load line"));
  // Bytes that are not UTF-8 are encoded one by one.
  EXPECT_EQ(tokenizer->Encode("a\xff").size(), tokenizer->Encode("a").size() + 1);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a\xff")), "a\xEF\xBF\xBD");
}

TEST(Tokenizer, Gpt2sOwnFilesEncodeAsTheReference) {
  const auto shared = SharedFolder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  const auto tokenizer = LoadTokenizer(*shared + "/data/tokenizers/gpt2_encoder.json");
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->EndOfText(), 50256);
  ExpectSameAsReference(*tokenizer, "gpt2_full", true);
}

TEST(Tokenizer, WholeCorpusComesBack) {
  const auto shared = SharedFolder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  const MappedFile text(*shared + "/data/text/wikitext2_valid.txt");
  const auto tokenizer = LoadTokenizer(*shared + "/data/tokenizers/gpt2_encoder.json");
  const std::vector<int32_t> ids = tokenizer->Encode(text.text());
  // The number of ids and the hash that `tokenizers` 0.23 gives.
  EXPECT_EQ(ids.size(), 258659u);
  uint64_t hash = 0;
  for (const int32_t id : ids) hash = hash * 1000003 + static_cast<uint64_t>(id);
  EXPECT_EQ(hash, 4484904928132639054u);
  EXPECT_EQ(tokenizer->Decode(ids), text.text());
}

TEST(Tokenizer, AnyBytesComeBack) {
  for (const char* name : {"gpt2_style.json", "llama3_style.json"}) {
    const auto tokenizer = LoadTokenizer(kFixtures + name);
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
    for (const std::string& bytes :
         {all, std::string("\xff\xfe text \xc3"), std::string("\xed\xa0\x80 \xf4\x90\x80\x80"),
          std::string("\xe2\x82 \xe2\x82\xac\xe2"), std::string("\xc0\xaf  ")}) {
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(bytes)), bytes);
    }
  }
  // Invalid bytes prevent normalisation only for themselves.
  const auto qwen2 = LoadTokenizer(kFixtures + "qwen2_style.json");
  EXPECT_EQ(qwen2->Decode(qwen2->Encode("\xff"
                                        "e\xCC\x81\xc3")),
            "\xff\xC3\xA9\xc3");
}

TEST(Tokenizer, LongPiecesTakeNoQuadraticTime) {
  std::string letters;
  for (int i = 0; i < 200'000; ++i) letters.push_back(static_cast<char>('a' + i * 7 % 26));
  const std::string spaces(200'000, ' ');
  for (const char* name : {"llama3_style.json", "llama2_style.json"}) {
    const auto tokenizer = LoadTokenizer(kFixtures + name);
    for (const std::string& text : {letters, spaces, letters + spaces + letters}) {
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
    }
  }
}

TEST(Tokenizer, MayBeSharedByThreads) {
  const auto tokenizer = LoadTokenizer(kFixtures + "llama3_style.json");
  const std::vector<Example> examples = Expected("llama3_style");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (const Example& example : examples) {
        if (tokenizer->Encode(example.text) != example.ids) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Tokenizer, IsFoundByFileOrFolder) {
  TempFolder files;
  ExpectUserError([&] { LoadTokenizer(files.path()); }, {files.path(), "tokenizer.json"});
  ExpectUserError([&] { LoadTokenizer(files / "nothing.json"); }, {"nothing.json", "byte"});
  files.Write("small_encoder.json", "{}");
  ExpectUserError([&] { LoadTokenizer(files / "small_encoder.json"); },
                  {"small_encoder.json", "small_vocab.bpe"});
  files.Write("tokenizer.model", "");
  ExpectUserError([&] { LoadTokenizer(files.path()); }, {"tokenizer.model", "save_pretrained"});
  files.Write("tokenizer.json", MappedFile(kFixtures + "gpt2_style.json").text());
  EXPECT_EQ(LoadTokenizer(files.path())->vocab_size(), 601);
}

TEST(Utf8Stream, HoldsBackIncompleteSequences) {
  const std::string text = "a\u00e9\u8ca8\U0001f6a2z";
  Utf8Stream stream;
  std::string out;
  for (const char byte : text) {
    const std::string part = stream.Push(std::string(1, byte));
    for (std::string_view rest = part; !rest.empty();) {
      const size_t length = Utf8Length(rest);
      ASSERT_GT(length, 0u);
      rest.remove_prefix(length);
    }
    out += part;
  }
  EXPECT_EQ(out, text);
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8Stream, ReplacesWhatIsNoUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xff"
                        "b"),
            "a" + bad + "b");
  EXPECT_EQ(stream.Push("\xe2\x82"), "");
  EXPECT_EQ(stream.Push("x"), bad + bad + "x");
  EXPECT_EQ(stream.Push("\xed\xa0\x80"), bad + bad + bad);  // a surrogate
  EXPECT_EQ(stream.Push("\xf0\x9f"), "");
  EXPECT_EQ(stream.Finish(), bad);
  EXPECT_EQ(stream.Finish(), "");
}

}  // namespace
}  // namespace plimsoll::data
