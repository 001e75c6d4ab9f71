// A BPE tokenizer built from a description; tokenizer_json.cc reads files into a description. The
// stages of Encode:
//   1 added tokens that are matched in the raw text     (added_token_finder.h)
//   2 normalisation (Normalizer) of each part between them
//   3 added tokens that are matched in normalised text
//   4 spaces written as a character of their own (Metaspace), or the split patterns, one after the
//     other: matches and the text between them become pieces
//   5 BPE of each piece's bytes or characters
// Bytes that are not UTF-8 skip NFC and stage 4: each run of them is a piece.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/added_token_finder.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/split_pattern.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// A tokenizer's changes to text before it looks for words: canonical composition, replacements.
// Steps, applied in the order in which they were added. Bytes that are not UTF-8 are kept.
class Normalizer {
 public:
  void AddNfc();                                              // Unicode's normal form C
  void AddPrepend(std::string prefix);                        // before a text that is not empty
  void AddReplace(std::string pattern, std::string content);  // every `pattern`, which is not empty

  bool empty() const { return steps_.empty(); }
  // Whether composition is all that it does: blanks and newlines then stay, in number and order.
  bool OnlyComposes() const;
  bool Composes() const;
  bool Prepends() const;
  // Whether text that is cut before a blank or a newline becomes the same as in one: composition
  // comes first, and replacements are of single characters.
  bool CutsBeforeBlanks() const;
  // `within`: the text continues another one, so that no prefix is added.
  std::string Apply(std::string_view text, bool within = false) const;

 private:
  enum class Kind { kNfc, kPrepend, kReplace };
  struct Step {
    Kind kind;
    std::string pattern, content;
  };
  std::vector<Step> steps_;
};

// `text` with every occurrence of `pattern` replaced, from left to right.
std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content);

// Spaces become `replacement`, which is also put before the text, unless the text begins with one.
struct Metaspace {
  enum class Prepend { kNever, kFirst, kAlways };  // kFirst: not after an added token
  std::string replacement;
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // each replacement begins a piece
};

struct BpeDescription {
  BpeModel model;
  std::vector<std::string> tokens;  // bytes by id; empty where an id has none
  std::vector<bool> is_byte;        // by id: a byte of a character without a token of its own
  std::vector<AddedToken> added;
  Normalizer normalizer;
  std::optional<Metaspace> metaspace;
  std::vector<SplitPattern> patterns;
  bool strips_space = false;  // a decoded text loses one leading space
};

std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeDescription description);

// For readers of vocabulary files: builds the description's model and tokens. `where` is the file,
// `vocab` (token, id) in any order. Tokens are spelled in the byte-level alphabet of GPT-2,
// or literally with single bytes as <0x00> to <0xFF>.
class BpeVocabulary {
 public:
  enum class Spelling { kByteLevel, kCharacters };

  BpeVocabulary(std::string where, const std::vector<std::pair<std::string, int64_t>>& vocab,
                Spelling spelling = Spelling::kByteLevel);

  // Adds a merge in order of rank; `field` names it in messages.
  void AddMerge(const std::string& left, const std::string& right, const std::string& field);
  // Makes pieces that are tokens skip the merges.
  void IgnoreMerges();

  int32_t Id(const std::string& token, const std::string& field) const;  // UserError if unknown
  BpeDescription Take();

 private:
  void FindBytes();
  void FindCharacters();

  std::string where_;
  Spelling spelling_;
  std::unordered_map<std::string, int32_t> ids_;  // by their spelling
  BpeDescription description_;
};

}  // namespace plimsoll::data
