// What the files next to a vocabulary say about a tokenizer: tokenizer_config.json and, where that
// has no added_tokens_decoder, special_tokens_map.json and added_tokens.json. All is taken as
// transformers' fast tokenizers take it, or refused; UserErrors name the file and the key.
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

// What Plimsoll knows of the keys of tokenizer_config.json.
std::span<const formats::KeyRule> TokenizerConfigRules();

// A token of added_tokens, or of added_tokens_decoder, without its id. `normalizes`: false refuses
// tokens that are looked for in normalised text.
AddedToken ReadAddedToken(const JsonField& token, bool normalizes);

// "[MASK]", or {"content": "[MASK]", …}; `otherwise` where the field is missing.
std::string ContentOf(const JsonField& token, std::string_view otherwise);

// The tokens of a vocabulary, to which a config adds.
struct VocabularyTokens {
  std::function<std::optional<int64_t>(const std::string&)> find;  // of the vocabulary alone
  int64_t next = 0;                                                // the id of a new token
  bool normalizes = true;                                          // see ReadAddedToken
  std::vector<AddedToken> added = {};
};

class TokenizerConfig {
 public:
  TokenizerConfig();  // no file
  TokenizerConfig(std::string_view json, const std::string& name);
  // Of the folder's files, each of which may be missing. An empty folder is none.
  explicit TokenizerConfig(const std::string& folder);

  JsonField operator[](const char* key) const { return json_.Fields()[key]; }

  // Adds the tokens that it describes or names, or gives those that are there its marks. Returns
  // what it says about roles and sides.
  TokenizerFacts AddTokens(VocabularyTokens& tokens) const;

  // Refuses what contradicts the vocabulary's own description. `words`: null where texts aren't cut
  // as BERT does, and then nothing is asked of them; `space_before`: whether a text gets a space
  // before it.
  void RequireWords(const BertWordOptions* words) const;
  void RequireSpaceBefore(bool space_before) const;

  // For vocabularies without such a description: the tokenizer must be one of these classes of
  // transformers ("BertTokenizer"), possibly followed by "Fast".
  void RequireClass(std::span<const std::string_view> known, std::string_view in_words) const;

 private:
  struct File {
    // Messages call it `path`; one that isn't there is empty.
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
  File special_, added_;  // looked at only where there is no added_tokens_decoder
};

}  // namespace plimsoll::data
