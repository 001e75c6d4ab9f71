// Texts for masked language models, as in the training of BERT (Devlin et al. 2019) and RoBERTa
// (Liu et al. 2019): cut into samples of T tokens, with masks. T sequence.
//
//   one text     [CLS] T − 2 tokens [SEP]: the stream of all documents, each followed by [SEP], is
//                cut into pieces (RoBERTa's FULL-SENTENCES, section 4.2). All pieces but the last
//                are full.
//   pairs        [CLS] A [SEP] B [SEP]: pieces of T − 3 tokens that end with their document. Each
//                piece is cut in two, after a sentence's end if it has one, otherwise between two
//                words. B is the second part or, with probability ½, a text of another document,
//                which begins where that document's piece would be cut and is at most as long;
//                `next_sentence` says which (Devlin et al. 2019, section 3.1 "Task #2").
//
// A row is determined by the number of its piece and a key, from which masks, cuts and B are drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/texts/text_settings.h"
#include "data/texts/text_slots.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

// Masking for masked language models (Devlin et al. 2019, section 3.1 "Task #1"): some tokens of a
// text become targets. Most of these are replaced by the mask token, some by a random token, and
// the rest stay unchanged.
struct MaskingOptions {
  double fraction = 0.15;     // share of the tokens, or words, that become targets
  double mask_share = 0.8;    // share of the targets that become the mask token
  double random_share = 0.1;  // share of the targets that become a random token
};

class TokenMasking {
 public:
  // `vocab`: random tokens are drawn below it, except special tokens. `continues`: for each id,
  // whether it continues a word, so that words are masked as units; empty: tokens are masked one by
  // one.
  TokenMasking(const MaskingOptions& options, const MarkerTokens& markers, int64_t vocab,
               std::vector<bool> continues = {});

  // Replaces tokens in place. Sets `targets`, unless it is empty, to the former token where there
  // is loss, otherwise to kIgnoredTarget. Of the n tokens (words) that are not special, exactly
  // round(fraction · n) become targets, but at least one. Returns the number of targets. The result
  // only depends on `key` and the tokens. Allocates nothing.
  int64_t Apply(uint64_t key, std::span<int32_t> tokens, std::span<int32_t> targets) const;

 private:
  bool IsSpecial(int32_t token) const;
  bool Continues(int32_t token) const;
  int32_t Replaced(uint64_t key, int32_t token) const;

  MaskingOptions options_;
  int32_t mask_;
  std::vector<int32_t> special_;  // ids of special tokens, sorted
  std::vector<bool> continues_;
  int64_t vocab_;
};

// The settings that all parts of a data set share.
struct MaskedTextForm {
  int64_t sequence = 0;
  bool pairs = false;
  MarkerTokens markers;
  TokenMasking masking;
  std::vector<bool> continues;         // whether each id continues a word; empty if unknown
  std::vector<int32_t> sentence_ends;  // sorted ids of . ? ! and the like
  int32_t document_end = 0;            // the token after each document
  bool of_documents = true;  // false for a stream of random tokens, whose pieces are unrelated
};

// The parts of the inputs for one sample; all but `tokens` may be empty.
struct MaskedRow {
  std::span<int32_t> tokens, targets, token_types;  // [T]
  std::span<int32_t> length, next_sentence;         // [1]
};

class MaskedText {
 public:
  // Throws a UserError, which begins with `key`, when the text is too short.
  MaskedText(SourceList sources, MaskedTextForm form, const std::string& key);

  int64_t pieces() const { return pieces_; }
  int64_t tokens() const { return stream_.size(); }
  const SourceList& sources() const { return stream_.sources(); }
  int64_t documents() const { return std::ssize(documents_); }
  int64_t sequence() const { return form_.sequence; }
  // The share of positions that are padding, computed before B is drawn.
  double padding() const;

  // Fills a row and returns the number of its targets. Allocates nothing.
  int64_t FillRow(int64_t piece, uint64_t key, const MaskedRow& row) const;
  // Fills a row with padding only; no position carries loss.
  void FillEmptyRow(const MaskedRow& row) const;

 private:
  struct Document {
    int64_t start = 0, size = 0;  // range of tokens in the stream, without the separator
    int64_t first_piece = 0;
  };
  struct Piece {
    int64_t start = 0, size = 0;
    int64_t document = 0;      // number of the document
    int64_t document_end = 0;  // position in the stream
  };

  void FindDocuments(const std::string& key);
  Piece PieceAt(int64_t number) const;
  int64_t PlainRow(int64_t piece, std::span<int32_t> tokens) const;
  struct PairLengths {
    int64_t first = 0, second = 0;  // number of tokens in A and B
    bool follows = true;
  };
  PairLengths PairRow(int64_t piece, uint64_t key, std::span<int32_t> tokens) const;
  int64_t Cut(std::span<const int32_t> tokens, uint64_t random) const;
  Piece OtherText(const Piece& piece, int64_t size, uint64_t key, std::span<int32_t> scratch) const;
  bool BeginsWord(int32_t token) const;
  bool EndsSentence(int32_t token) const;

  MaskedTextForm form_;
  TokenStream stream_;
  std::vector<Document> documents_;  // used for pairs only
  int64_t room_ = 0;                 // tokens of a full piece
  int64_t size_ = 0;                 // tokens of the stream that are cut into pieces
  int64_t pieces_ = 0;
};

}  // namespace plimsoll::data
