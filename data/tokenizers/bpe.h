// Byte-pair encoding of one piece of text (Sennrich, Haddow, Birch 2016): starting from its bytes
// or its characters, the adjacent pair with the lowest rank is merged, leftmost first, until no
// pair has a rank. O(n log n) in the length of the piece.
//
// SentencePiece tokenizers treat a whole text as one piece. Here it is cut where no merge can join
// the two characters, which does not change the result: the remaining parts are words, most of
// which were seen before.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace plimsoll::data {

struct BpeMerge {
  int32_t left = 0, right = 0, merged = 0;  // token ids
};

struct BpeModel {
  std::array<int32_t, 256> byte_ids = {};  // the token of each byte
  // The tokens of characters; a character without one becomes its bytes' tokens, which no merge
  // joins. Empty: all text is bytes.
  std::unordered_map<char32_t, int32_t> character_ids;
  std::unordered_set<uint64_t> joints;  // PairOf the two characters between the parts of each merge
  std::vector<BpeMerge> merges;         // by rank; of equal pairs the last counts
  // Pieces that are tokens as a whole and skip the merges (`ignore_merges`); empty if unused.
  std::unordered_map<std::string, int32_t> whole_pieces;
};

inline uint64_t PairOf(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

class Bpe {
 public:
  explicit Bpe(BpeModel model);

  // Whether text may be cut between two characters. False without a table of characters: all of a
  // piece may be joined.
  bool Parts(char32_t left, char32_t right) const {
    return !model_.character_ids.empty() && !model_.joints.contains(PairOf(left, right));
  }

  // Appends the ids of `piece`. Caches pieces, so only one thread may call it at a time.
  void Encode(std::string_view piece, std::vector<int32_t>* out);

 private:
  struct Slot {
    uint64_t pair = 0;  // left id << 32 | right id
    int32_t rank = -1;  // -1: free
    int32_t merged = 0;
  };
  struct Symbol {
    int32_t id = 0;  // -1: merged away
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
  std::vector<Slot> table_;  // open addressing, a power of two, at most half full
  std::unordered_map<std::string, std::vector<int32_t>, PieceHash, std::equal_to<>> seen_;
  std::vector<Symbol> symbols_;        // scratch of Merge()
  std::vector<Candidate> candidates_;  // scratch of Merge(): a heap, lowest rank first
};

}  // namespace plimsoll::data
