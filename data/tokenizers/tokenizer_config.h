// Reads the files next to a vocabulary that describe a tokenizer: tokenizer_config.json and, if
// that has no added_tokens_decoder, special_tokens_map.json and added_tokens.json. Their keys are
// followed as in transformers' fast tokenizers, or refused; UserErrors name the file and the key.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/added_token_finder.h"
#include "data/tokenizers/bert_words.h"
#include "data/tokenizers/json_field.h"
#include "data/tokenizers/tokenizer.h"
#include "formats/key_rules.h"

namespace plimsoll::data {

// Rules for the keys of tokenizer_config.json.
std::span<const formats::KeyRule> TokenizerConfigRules();

// Reads a token of added_tokens or added_tokens_decoder, without its id. `normalizes`: if false,
// refuses tokens that are searched for in normalised text.
AddedToken ReadAddedToken(const JsonField& token, bool normalizes);

// Reads a token written as "[MASK]" or {"content": "[MASK]", …}; returns `otherwise` if the field
// is missing.
std::string ContentOf(const JsonField& token, std::string_view otherwise);

// The tokens of a vocabulary, and those that tokenizer_config.json adds to it.
struct VocabularyTokens {
  // Finds the id of a token in the vocabulary, without the added tokens.
  std::function<std::optional<int64_t>(const std::string&)> find;
  int64_t next = 0;        // the id of the next new token
  bool normalizes = true;  // see ReadAddedToken
  std::vector<AddedToken> added = {};
};

class TokenizerConfig {
 public:
  TokenizerConfig();  // as if no file existed
  TokenizerConfig(std::string_view json, const std::string& name);
  // Reads the folder's files, each of which may be missing. With an empty folder, no file is read.
  explicit TokenizerConfig(const std::string& folder);

  JsonField operator[](const char* key) const { return json_.Fields()[key]; }
  // The tokenizer_class without "Fast"; empty if no file names one.
  std::string ClassName() const;

  // Adds the tokens that the files describe or name; for existing tokens, sets their attributes.
  // Returns the facts about roles and sides.
  TokenizerFacts AddTokens(VocabularyTokens& tokens) const;

  // Refuse settings that contradict the vocabulary's own description. `words`: null if the
  // tokenizer does not split words as BERT does; then nothing is checked. `space_before`: whether a
  // space is put before a text.
  void RequireWords(const BertWordOptions* words) const;
  void RequireSpaceBefore(bool space_before) const;

  // For vocabularies that do not say how text is split: the tokenizer_class must be one of these
  // classes of transformers ("BertTokenizer"), possibly followed by "Fast".
  void RequireClass(std::span<const std::string_view> known, std::string_view in_words) const;

 private:
  struct File {
    // Messages call the file `path`; a file that does not exist is empty.
    explicit File(const std::string& path);
    File(std::string_view json, const std::string& name);
    const nlohmann::json& json() const { return object.json(); }
    JsonField Fields() const;

    std::string name;
    formats::JsonObject object;
  };
  TokenizerConfig(File json, File special, File added);

  bool Decodes() const { return json_.object.Has("added_tokens_decoder"); }
  bool Overridden(const std::string& key) const;
  void AddDescribed(VocabularyTokens& tokens) const;
  void AddNamed(const JsonField& token, const std::string& role, VocabularyTokens& tokens,
                TokenizerFacts& facts) const;

  File json_;
  File special_, added_;  // read only if there is no added_tokens_decoder
};

}  // namespace plimsoll::data
