// Packing: rows that hold whole examples, so that each example is read apart from the others.
// T sequence.
//
//   best_fit   best-fit decreasing, as TRL's "bfd": the examples, longest first, each into the row
//              with the least room that has room for it, or else into a new row. O(n log T).
//   none       an example a row.
//
// An example of n tokens takes n positions of a row and gives n − 1 targets: the model reads its
// last token, too, as transformers' models do, which shift labels themselves. Padding fills the
// rest of a row: token 0, and positions that begin at 0 again. It carries no loss, and neither do
// the last token of an example and what the source masks.
//
// With `pairs` (preferences) the source has two texts for each example, the chosen and the rejected
// answer after their prompt, and a pair is what is placed: its texts are next to each other in one
// row, each with positions of its own. Of a pair that is longer than a row, the longer text loses
// tokens at its end until both have half of the row (too_long: truncate), or the pair is left out
// (drop); a pair of which a text keeps no target is left out. A row's reference log-probabilities
// (references) are 0 until they are set.
//
// Which examples share a row follows from their lengths and order alone. Tokens stay in their
// source; memory takes 12 bytes an example and 8 bytes a row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/tokens/token_source.h"

namespace plimsoll::data {

// data.packing. kConcatenate: examples make one stream, which is cut into windows (loader.h).
enum class Packing { kConcatenate, kBestFit, kNone };
// data.too_long: what becomes of an example of more than T tokens. kTruncate keeps its first T,
// kSplit cuts it into pieces of T, each of which is then an example of its own.
enum class TooLong { kTruncate, kDrop, kSplit };

struct PackingOptions {
  Packing packing = Packing::kBestFit;
  TooLong too_long = TooLong::kTruncate;
  int64_t sequence = 0;  // T
  bool pairs = false;    // not with TooLong::kSplit
};

// Best-fit decreasing.   n items.
struct BestFit {
  std::vector<int32_t> order;  // [n] the items by length, longest first, equal ones by number
  std::vector<int32_t> bins;   // [n] the bin of order[i]
  int32_t count = 0;           // of bins
};
// Lengths are from 1 to `room`.
BestFit FitDecreasing(std::span<const int32_t> lengths, int32_t room);

class PackedRows {
 public:
  struct Counts {
    int64_t examples = 0, too_long = 0;  // of the source
    int64_t rows = 0, tokens = 0;        // that are read; padding is no token
    int64_t pairs = 0;                   // that are read; 0: the examples are no pairs
    int64_t without_targets = 0;         // pairs that were left out for that
  };

  // `ends`: where the examples of the source end, in order, in tokens; the first begins at 0.
  // UserError when data.too_long: drop leaves none; `key` names the data.
  PackedRows(std::shared_ptr<const TokenSource> source, std::span<const int64_t> ends,
             const PackingOptions& options, const std::string& key);

  const PackingOptions& options() const { return options_; }
  const Counts& counts() const { return counts_; }
  int64_t rows() const { return counts_.rows; }

  // Neither allocates nor changes anything.
  void Read(int64_t row, const TokenRow& out) const;
  int64_t CountTargets(int64_t row) const;  // that carry loss; of pairs their number
  int64_t CountTokens(int64_t row) const;   // without padding

  // Of pairs, the texts of all rows in their order: chosen, rejected, chosen, …
  int64_t texts() const { return std::ssize(pieces_.starts); }
  int64_t FirstText(int64_t row) const;  // also of the row after the last
  // Tells texts apart: of their tokens and of which carry loss, 64 bits.
  uint64_t HashOfText(int64_t text) const;
  // By text; whoever computes them writes them before the rows are read for training.
  std::span<float> references() const { return *references_; }

 private:
  struct Pieces {
    std::vector<int64_t> starts;   // in the source
    std::vector<int32_t> lengths;  // 1 to T
    void Add(int64_t start, int64_t length) {
      starts.push_back(start);
      lengths.push_back(static_cast<int32_t>(length));
    }
  };

  void AddExamples(std::span<const int64_t> ends);
  void AddPairs(std::span<const int64_t> ends);
  bool HasTarget(int64_t start, int64_t length) const;
  int64_t texts_of_example() const { return options_.pairs ? 2 : 1; }
  void PackBestFit();
  // Calls visit(start, length) for the pieces of a row, in their order.
  template <typename Visit>
  void ForEachPiece(int64_t row, Visit visit) const;

  std::shared_ptr<const TokenSource> source_;
  PackingOptions options_;
  Counts counts_;
  Pieces pieces_;               // row after row
  std::vector<int64_t> first_;  // [rows + 1] a row's first piece; empty: an example a row
  std::shared_ptr<std::vector<float>> references_;  // [pieces] of pairs
};

// "1200 examples in 340 rows of 512 tokens, 97.3 % full", and a line about those that were too
// long, if there are any; each line is indented and ends with a newline. Over all of `parts`
// without those that are nullptr. Empty: nothing is packed.
std::string PackingText(std::span<const PackedRows* const> parts);

}  // namespace plimsoll::data
