// Tokenizers with added tokens that take white space or match whole words only, and what Hugging
// Face's tokenizers encode with them (tests/data/tokenizers/make_stripping.py).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer_json.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {

struct StrippingTokenizer {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::pair<std::string, std::vector<int32_t>>> cases;  // texts and their ids
};

inline nlohmann::json WordPieceJson(const std::string& lines) {
  nlohmann::json vocab = nlohmann::json::object();
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    vocab[lines.substr(begin, end - begin)] = vocab.size();
    begin = end + 1;
  }
  return {{"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"added_tokens", nlohmann::json::array()},
          {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
}

// `words`: with a token of normalised text that is found only as a word, whose meeting with a blank
// before it keeps some tokenizers from cutting texts.
inline std::vector<StrippingTokenizer> StrippingTokenizers(bool words = true) {
  using nlohmann::json;
  const std::string folder = "tests/data/tokenizers/";
  std::vector<StrippingTokenizer> all;
  for (const json& one : json::parse(ReadFile(folder + "stripping.expected.json"))) {
    const auto name = one.at("base").get<std::string>();
    const std::string text = ReadFile(folder + name);
    json file = name.ends_with(".txt") ? WordPieceJson(text) : json::parse(text);
    for (const json& token : one.at("added")) {
      if (words || token.at("content") != "NW") file["added_tokens"].push_back(token);
    }
    StrippingTokenizer& made = all.emplace_back();
    made.name = name;
    made.tokenizer = ParseTokenizerJson(file.dump(), name);
    for (const json& example : one.at("cases")) made.cases.emplace_back(example[0], example[1]);
  }
  return all;
}

}  // namespace plimsoll::data
