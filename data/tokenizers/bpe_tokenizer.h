// A BPE tokenizer built from a description; tokenizer_json.cc converts files to a description. The
// stages of Encode:
//   1 added tokens that are matched in the raw text     (added_token_finder.h)
//   2 normalisation (Normalizer) of each part between them
//   3 added tokens that are matched in normalised text
//   4 spaces written as a character of their own (Metaspace), or the split patterns, one after the
//     other: matches and the text between them become pieces
//   5 BPE of each piece's bytes or characters
// Bytes that are not UTF-8 skip NFC and stage 4: each run of them is a piece.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/tokenizers/added_token_finder.h"
#include "data/tokenizers/split_pattern.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

struct BpeMerge {
  int32_t left = 0, right = 0, merged = 0;  // token ids
};

struct BpeModel {
  std::array<int32_t, 256> byte_ids = {};  // the token of each byte
  // The token of each character. A character without a token becomes the tokens of its bytes, which
  // no merge joins. Empty: all text is encoded as bytes.
  std::unordered_map<char32_t, int32_t> character_ids;
  std::unordered_set<uint64_t> joints;  // for each merge, PairOf the two characters at its boundary
  std::vector<BpeMerge> merges;  // in order of rank; if a pair occurs twice, the last one counts
  // Pieces that are a token and therefore skip the merges (`ignore_merges`); empty if unused.
  std::unordered_map<std::string, int32_t> whole_pieces;
};

inline uint64_t PairOf(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// Byte-pair encoding of one piece of text (Sennrich, Haddow, Birch 2016). Starts from the piece's
// bytes or characters, and merges the adjacent pair with the lowest rank, leftmost first, until no
// pair has a rank. O(n log n) in the length of the piece.
//
// SentencePiece tokenizers treat a complete text as one piece. This class cuts it between
// characters that no merge can join, which does not change the result: the parts are words, most of
// which are cached.
class Bpe {
 public:
  explicit Bpe(BpeModel model);

  // Whether text may be cut between two characters. Always false without a table of characters,
  // since merges may then join any characters of a piece.
  bool Parts(char32_t left, char32_t right) const {
    return !model_.character_ids.empty() && !model_.joints.contains(PairOf(left, right));
  }

  // Appends the ids of `piece`. Caches pieces, so only one thread may call it at a time.
  void Encode(std::string_view piece, std::vector<int32_t>* out);

 private:
  struct Slot {
    uint64_t pair = 0;  // left id << 32 | right id
    int32_t rank = -1;  // -1: an unused entry
    int32_t merged = 0;
  };
  struct Symbol {
    int32_t id = 0;  // -1: merged into its left neighbour
    int32_t previous = -1, next = -1;
  };
  struct Candidate {
    int32_t rank = 0, position = 0, merged = 0;
  };
  struct Later {  // orders a heap with the lowest rank, then the leftmost position, on top
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
    }
  };
  struct PieceHash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };

  const Slot* Find(int32_t left, int32_t right) const;
  void PushCandidate(int32_t position);
  void EncodeWord(std::string_view word, std::vector<int32_t>* out);
  void AppendSymbols(std::string_view word);
  void Merge(std::string_view word, std::vector<int32_t>* out);

  BpeModel model_;
  // Open addressing; its size is a power of two, and it is at most half full.
  std::vector<Slot> table_;
  std::unordered_map<std::string, std::vector<int32_t>, PieceHash, std::equal_to<>> seen_;
  std::vector<Symbol> symbols_;        // scratch memory of Merge()
  std::vector<Candidate> candidates_;  // scratch memory of Merge(): a heap, lowest rank first
};

// A tokenizer's changes to text before it splits the text into words: canonical composition and
// replacements. Steps are applied in the order in which they were added. Bytes that are not UTF-8
// are kept.
class Normalizer {
 public:
  void AddNfc();                        // Unicode's normal form C
  void AddPrepend(std::string prefix);  // adds a prefix to nonempty text
  // Replaces every `pattern`, which must not be empty.
  void AddReplace(std::string pattern, std::string content);

  bool empty() const { return steps_.empty(); }
  // Whether the only step is composition, which preserves the number and order of blanks and
  // newlines.
  bool OnlyComposes() const;
  bool Composes() const;
  bool Prepends() const;
  // Whether the last step replaces each `pattern`, one character, by text that does not contain it.
  bool Removes(std::string_view pattern) const;
  // Whether normalising the parts of a text that is cut before a blank or newline gives the same
  // result as normalising the complete text: composition must come first, and replacements must be
  // of single characters.
  bool CutsBeforeBlanks() const;
  // `within`: the text continues an earlier text, so no prefix is added.
  std::string Apply(std::string_view text, bool within = false) const;

 private:
  enum class Kind { kNfc, kPrepend, kReplace };
  struct Step {
    Kind kind;
    std::string pattern, content;
  };
  std::vector<Step> steps_;
};

// Replaces every occurrence of `pattern` in `text`, from left to right.
std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content);

// Replaces spaces by `replacement`. Also puts `replacement` before a text that does not begin with
// it.
struct Metaspace {
  enum class Prepend { kNever, kFirst, kAlways };  // kFirst: except after an added token
  std::string replacement;
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // whether each replacement begins a piece
};

struct BpeDescription {
  BpeModel model;
  std::vector<std::string> tokens;  // bytes of each id; empty for an unused id
  std::vector<bool> is_byte;  // for each id, whether it is a byte of a character that has no token
  std::vector<AddedToken> added;
  Normalizer normalizer;
  std::optional<Metaspace> metaspace;
  std::vector<SplitPattern> patterns;
  bool strips_space = false;  // whether a decoded text loses one leading space
};

std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeDescription description);

// Builds the description's model and tokens for readers of vocabulary files. `where` is the file,
// `vocab` has (token, id) in any order. Tokens are spelled in the byte-level alphabet of GPT-2, or
// literally with single bytes as <0x00> to <0xFF>.
class BpeVocabulary {
 public:
  enum class Spelling { kByteLevel, kCharacters };

  BpeVocabulary(std::string where, const std::vector<std::pair<std::string, int64_t>>& vocab,
                Spelling spelling = Spelling::kByteLevel);

  // Adds a merge; calls must be in order of rank. `field` names the merge in messages.
  void AddMerge(const std::string& left, const std::string& right, const std::string& field);
  // Makes pieces that are tokens skip the merges.
  void IgnoreMerges();

  // The id of a token. Throws a UserError if the token is unknown.
  int32_t Id(const std::string& token, const std::string& field) const;
  BpeDescription Take();

 private:
  void FindBytes();
  void FindCharacters();

  std::string where_;
  Spelling spelling_;
  std::unordered_map<std::string, int32_t> ids_;  // ids by the token's spelling
  BpeDescription description_;
};

}  // namespace plimsoll::data
