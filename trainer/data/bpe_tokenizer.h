// A byte-level BPE tokenizer put together from its parts; files are read into a description by
// gpt2_files.cc and tokenizer_json.cc. The stages of Encode:
//   1 added tokens that are matched in the raw text     (leftmost, then longest)
//   2 NFC, if asked for
//   3 added tokens that are matched in normalised text
//   4 the split patterns, one after the other: matches and what lies between them become pieces
//   5 BPE of each piece's bytes
// Bytes that are no UTF-8 take no part in 2 and 4: each run of them is a piece.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/bpe.h"
#include "trainer/data/split_pattern.h"
#include "trainer/data/tokenizer.h"

namespace plimsoll::data {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool normalized = false;  // matched in stage 3
};

struct BpeDescription {
  BpeModel model;
  std::vector<std::string> tokens;  // bytes by id; empty where an id has none
  std::vector<AddedToken> added;
  std::vector<SplitPattern> patterns;
  bool nfc = false;
};

std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeDescription description);

// For the readers of vocabulary files: the description's model and tokens from the alphabet's
// spelling of tokens. `where` is the file, `vocab` (token, id) in any order.
class BpeVocabulary {
 public:
  BpeVocabulary(std::string where, const std::vector<std::pair<std::string, int64_t>>& vocab);

  // Adds a merge in order of rank; `field` names it in messages.
  void AddMerge(const std::string& left, const std::string& right, const std::string& field);
  // Lets pieces that are tokens skip the merges.
  void IgnoreMerges();

  int32_t Id(const std::string& token, const std::string& field) const;  // UserError if unknown
  BpeDescription Take();

 private:
  std::string where_;
  std::unordered_map<std::string, int32_t> ids_;  // by the alphabet's spelling
  BpeDescription description_;
};

}  // namespace plimsoll::data
