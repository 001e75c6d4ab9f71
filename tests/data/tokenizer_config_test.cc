// What the files next to a vocabulary say about it: done, or refused by name.
#include "data/tokenizers/tokenizer_config.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizers/generation_config.h"
#include "data/tokenizers/tokenizer_json.h"
#include "data/tokenizers/wordpiece.h"
#include "tests/data/stripping_tokenizers.h"
#include "tests/support/expect_error.h"
#include "tests/support/key_walk.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;
using Parts = std::initializer_list<std::string_view>;

const std::string kFixtures = "tests/data/tokenizers/";
const std::string kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##able\nUn\nö\no\n中\n";

std::string Describe(const Tokenizer& tokenizer) {
  Json all = {tokenizer.Encode("Unable [MASK] unöo中<s> </s>"), tokenizer.facts().named,
              tokenizer.facts().cuts_left, tokenizer.facts().pads_left,
              tokenizer.EndOfText().value_or(-1)};
  return all.dump();
}

KeyWalk WalkOf(Json valid, std::function<std::unique_ptr<Tokenizer>(const TokenizerConfig&)> load) {
  KeyWalk walk;
  walk.rules = TokenizerConfigRules();
  walk.valid = std::move(valid);
  walk.refuses_unknown = false;
  walk.read = [load](const Json& file) {
    return Describe(*load(TokenizerConfig(file.dump(), "tokenizer_config.json")));
  };
  return walk;
}

TEST(TokenizerConfig, EachKeyIsReadRefusedOrHarmlessNextToAVocabTxt) {
  WalkKeys(WalkOf({{"do_lower_case", false}}, [](const TokenizerConfig& config) {
    return ParseWordPieceFiles(kWords, "vocab.txt", config);
  }));
}

TEST(TokenizerConfig, EachKeyIsReadRefusedOrHarmlessNextToATokenizerJson) {
  const std::string pieces = WordPieceJson(kWords).dump();
  const std::string bytes = ReadFile(kFixtures + "gpt2_style.json");
  const std::string characters = ReadFile(kFixtures + "llama2_style.json");
  for (const std::string& file : {pieces, bytes, characters}) {
    WalkKeys(WalkOf(Json::object(), [&](const TokenizerConfig& config) {
      return ParseTokenizerJson(file, "tokenizer.json", config);
    }));
  }
}

TEST(TokenizerConfig, EachKeyIsReadRefusedOrHarmlessNextToAVocabJson) {
  const Json model = Json::parse(ReadFile(kFixtures + "gpt2_style.json")).at("model");
  WalkKeys(WalkOf(Json::object(), [&](const TokenizerConfig& config) {
    return ParseGpt2Files(model.at("vocab").dump(), "vocab.json", "", "merges.txt", config);
  }));
}

TEST(GenerationConfig, EachKeyIsReadOrHarmless) {
  const TempFolder folder;
  KeyWalk walk;
  walk.rules = GenerationConfigRules();
  walk.valid = {{"eos_token_id", {3, 5}}};
  walk.refuses_unknown = false;
  walk.read = [&](const Json& file) {
    folder.Write(kGenerationFile, file.dump());
    return Json(EndTokensIn(folder.path())).dump();
  };
  WalkKeys(walk);
}

// A folder with a vocabulary of bytes, to which it adds tokens.
class TokenizerFolder : public testing::Test {
 protected:
  TokenizerFolder() {
    Json file = Json::parse(ReadFile(kFixtures + "gpt2_style.json"));
    first_ = static_cast<int32_t>(file.at("model").at("vocab").size());
    file["added_tokens"] = Json::array();
    for (const char* token : {"<|endoftext|>", "<|im_end|>", "<eos>"}) {
      file["added_tokens"].push_back({{"content", token},
                                      {"id", first_ + std::ssize(file["added_tokens"])},
                                      {"special", true}});
    }
    Write("tokenizer.json", file);
  }
  void Write(const std::string& name, const Json& file) { folder_.Write(name, file.dump()); }
  std::unique_ptr<Tokenizer> Load() const { return LoadTokenizer(folder_.path()); }
  std::optional<int32_t> End() const { return Load()->EndOfText(); }
  void ExpectRefused(const Json& config, Parts parts) {
    Write("tokenizer_config.json", config);
    ExpectUserError([&] { Load(); }, parts);
  }

  const TempFolder folder_;
  int32_t first_ = 0;  // the id of <|endoftext|>
};

TEST_F(TokenizerFolder, SaysWhichTokenEndsTexts) {
  EXPECT_EQ(End(), first_);  // by its name
  Write("generation_config.json", {{"eos_token_id", {first_ + 2, first_}}});
  EXPECT_EQ(End(), first_ + 2);
  EXPECT_EQ(Load()->facts().ends, (Ids{first_ + 2, first_}));
  Write("config.json", {{"eos_token_id", first_ + 1}, {"model_type", "llama"}});
  EXPECT_EQ(End(), first_ + 1);
  EXPECT_EQ(Load()->facts().ends, (Ids{first_ + 1, first_ + 2, first_}));
  Write("tokenizer_config.json", {{"eos_token", {{"content", "<eos>"}}}});
  EXPECT_EQ(End(), first_ + 2);
  EXPECT_EQ(LoadTokenizer(folder_ / "tokenizer.json")->EndOfText(), first_ + 2);
  Write("tokenizer_config.json", {{"eos_token", "<|im_end|>"}});
  EXPECT_EQ(End(), first_ + 1);
  // Beyond the vocabulary: a default of configurations.
  Write("tokenizer_config.json", {{"eos_token", nullptr}});
  Write("config.json", {{"eos_token_id", 50256}});
  EXPECT_EQ(End(), first_ + 2);
  Write("config.json", {{"eos_token_id", "</s>"}});
  ExpectUserError([&] { Load(); }, {"config.json", "eos_token_id"});
}

TEST_F(TokenizerFolder, NamesATokenThatTheVocabularyLacks) {
  ExpectRefused({{"eos_token", "<none>"}}, {"tokenizer_config.json: eos_token", "<none>"});
  ExpectRefused({{"image_token", "<none>"}}, {"image_token", "<none>"});
  ExpectRefused({{"extra_special_tokens", {{"a_token", "<none>"}}}},
                {"extra_special_tokens.a_token"});
  ExpectRefused({{"split_special_tokens", true}}, {"tokenizer_config.json: split_special_tokens"});
}

TEST_F(TokenizerFolder, ReadsOlderFilesWhereTheConfigDescribesNoTokens) {
  Write("tokenizer_config.json", {{"eos_token", "<eos>"}});
  Write("special_tokens_map.json", {{"eos_token", {{"content", "<|im_end|>"}}}});
  EXPECT_EQ(End(), first_ + 1);
  Write("added_tokens.json", {{"<new>", first_ + 3}, {"<eos>", first_ + 2}});
  EXPECT_EQ(Load()->Encode("<new>"), Ids{first_ + 3});
  EXPECT_EQ(Load()->vocab_size(), first_ + 4);
  Write("tokenizer_config.json",
        {{"eos_token", "<eos>"}, {"added_tokens_decoder", Json::object()}});
  EXPECT_EQ(End(), first_ + 2);
  EXPECT_EQ(Load()->vocab_size(), first_ + 3);
  Write("tokenizer_config.json", Json::object());
  Write("added_tokens.json", {{"<eos>", first_}});
  ExpectUserError([&] { Load(); }, {"added_tokens.json: <eos>"});
  Write("added_tokens.json", Json::object());
  Write("special_tokens_map.json", {{"eos_id", 3}});
  ExpectUserError([&] { Load(); }, {"special_tokens_map.json: eos_id"});
}

TEST_F(TokenizerFolder, GivesTokensTheMarksOfTheConfig) {
  EXPECT_EQ(Load()->Encode(" <eos>").size(), 2u);
  const std::string key = std::to_string(first_ + 2);
  Write("tokenizer_config.json",
        {{"added_tokens_decoder",
          {{key, {{"content", "<eos>"}, {"special", true}, {"lstrip", true}}},
           {std::to_string(first_ + 3), {{"content", "<new>"}, {"special", true}}}}}});
  EXPECT_EQ(Load()->Encode(" <eos><new>"), (Ids{first_ + 2, first_ + 3}));
  ExpectRefused({{"added_tokens_decoder", {{"3", {{"content", "<eos>"}}}}}},
                {"added_tokens_decoder.3", "<eos>", std::to_string(first_ + 2)});
  // A token of the vocabulary that is named becomes one that texts spell out.
  EXPECT_NE(LoadTokenizer(kFixtures + "gpt2_style.json")->Encode("a the").size(), 1u);
  Write("tokenizer_config.json", {{"pad_token", "e"}, {"truncation_side", "left"}});
  EXPECT_EQ(Load()->Named("pad_token"), Load()->TokenId("e"));
  EXPECT_TRUE(Load()->facts().cuts_left);
}

TEST_F(TokenizerFolder, TakesSidesFromTheTokenizerJsonWhereTheConfigSaysNone) {
  Json file = Json::parse(ReadFile(folder_ / "tokenizer.json"));
  file["truncation"] = {{"direction", "Left"}, {"max_length", 512}};
  file["padding"] = {{"direction", "Left"}};
  Write("tokenizer.json", file);
  EXPECT_TRUE(Load()->facts().cuts_left);
  EXPECT_TRUE(Load()->facts().pads_left);
  Write("tokenizer_config.json", {{"truncation_side", "right"}, {"padding_side", "right"}});
  EXPECT_FALSE(Load()->facts().cuts_left);
  EXPECT_FALSE(Load()->facts().pads_left);
  file["padding"]["direction"] = "up";
  Write("tokenizer.json", file);
  ExpectRefused(Json::object(), {"tokenizer.json: padding.direction"});
}

TEST_F(TokenizerFolder, RefusesWhatTheVocabularysFileContradicts) {
  ExpectRefused({{"add_prefix_space", true}}, {"add_prefix_space", "no space"});
  Write("tokenizer_config.json", {{"do_lower_case", true}});  // of no effect on pieces of bytes
  EXPECT_EQ(Load()->Encode("The"), LoadTokenizer(kFixtures + "gpt2_style.json")->Encode("The"));
  ExpectRefused({{"split_special_tokens", true}}, {"split_special_tokens"});
  ExpectRefused({{"padding_side", "up"}}, {"padding_side"});
  Write("tokenizer.json", Json::parse(ReadFile(kFixtures + "llama2_style.json")));
  Write("tokenizer_config.json", {{"add_prefix_space", true}, {"legacy", false}});
  Load();
  ExpectRefused({{"add_prefix_space", false}}, {"add_prefix_space", "a space"});

  Json pieces = WordPieceJson(kWords);
  pieces["normalizer"]["lowercase"] = false;
  Write("tokenizer.json", pieces);
  Write("tokenizer_config.json", {{"do_lower_case", false}, {"tokenizer_class", "BertTokenizer"}});
  Load();
  Write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"}});
  Load();
  // BertTokenizer lower-cases unless it is told not to.
  ExpectRefused({{"tokenizer_class", "BertTokenizer"}}, {"do_lower_case", "is missing"});
  ExpectRefused({{"do_lower_case", true}}, {"do_lower_case", "is true"});
  ExpectRefused({{"tokenize_chinese_chars", false}}, {"tokenize_chinese_chars", "is false"});

  const Json model = Json::parse(ReadFile(kFixtures + "gpt2_style.json")).at("model");
  std::filesystem::remove(folder_ / "tokenizer.json");
  Write("vocab.json", model.at("vocab"));
  folder_.Write("merges.txt", "");
  Write("tokenizer_config.json", {{"tokenizer_class", "GPT2TokenizerFast"}});
  Load();
  ExpectRefused({{"tokenizer_class", "Qwen2Tokenizer"}}, {"tokenizer_class", "Qwen2Tokenizer"});
}

}  // namespace
}  // namespace plimsoll::data
