// Packing: rows that hold complete examples; attention does not cross from one example to another.
// T sequence.
//
//   best_fit   best-fit decreasing, as TRL's "bfd": the examples, longest first, are each placed
//              into the row with the least sufficient room, or else into a new row. O(n log T).
//   none       one example in each row.
//
// An example of n tokens occupies n positions of a row and has n − 1 targets: the model reads its
// last token, too, as in transformers, whose models shift labels themselves. The rest of a row is
// padding: token 0, and positions that start at 0 again. No loss is computed for padding, the last
// token of an example, and targets that the source masks.
//
// With `pairs` (preferences) the source has two texts for each example, the chosen and the rejected
// answer after their prompt. A pair is placed as a unit: its texts are adjacent in one row, each
// with its own positions. If a pair is longer than a row, either the longer text loses tokens at
// its end until both have half of the row (too_long: truncate), or the pair is left out (drop). A
// pair is also left out if one of its texts has no target left. A row's reference log-probabilities
// (references) are 0 until they are set.
//
// Which examples share a row depends only on their lengths and order. Tokens stay in their source;
// memory takes 12 bytes for each example and 8 bytes for each row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/tokens/token_source.h"

namespace plimsoll::data {

// data.packing. kConcatenate: examples form one stream, which is cut into windows (loader.h).
enum class Packing { kConcatenate, kBestFit, kNone };
// data.too_long: what happens to an example of more than T tokens. kTruncate keeps its first T
// tokens; kSplit cuts it into pieces of T tokens, each of which becomes an example.
enum class TooLong { kTruncate, kDrop, kSplit };

struct PackingOptions {
  Packing packing = Packing::kBestFit;
  TooLong too_long = TooLong::kTruncate;
  int64_t sequence = 0;  // T
  bool pairs = false;    // excludes TooLong::kSplit
};

// The result of best-fit decreasing for n items.
struct BestFit {
  std::vector<int32_t> order;  // [n], the items by length, longest first; equal ones by number
  std::vector<int32_t> bins;   // [n], the bin of item order[i]
  int32_t count = 0;           // number of bins
};
// Lengths must be 1 to `room`.
BestFit FitDecreasing(std::span<const int32_t> lengths, int32_t room);

class PackedRows {
 public:
  struct Counts {
    int64_t examples = 0, too_long = 0;  // examples in the source; examples longer than a row
    // rows and tokens that are read; padding does not count as tokens
    int64_t rows = 0, tokens = 0;
    int64_t pairs = 0;            // pairs that are read; 0 if the examples are not pairs
    int64_t without_targets = 0;  // pairs that were left out because a text has no target
  };

  // `ends`: the ends of the source's examples in tokens, in order; the first one begins at 0.
  // Throws a UserError when `data.too_long: drop` leaves no example; `key` names the data.
  PackedRows(std::shared_ptr<const TokenSource> source, std::span<const int64_t> ends,
             const PackingOptions& options, const std::string& key);

  const PackingOptions& options() const { return options_; }
  const Counts& counts() const { return counts_; }
  int64_t rows() const { return counts_.rows; }

  // Reads a row. Allocates nothing and changes no state.
  void Read(int64_t row, const TokenRow& out) const;
  int64_t CountTargets(int64_t row) const;  // targets with loss; for pairs, the number of pairs
  int64_t CountTokens(int64_t row) const;   // does not count padding

  // For pairs: the number of texts in all rows. Their order is chosen, rejected, chosen, …
  int64_t texts() const { return std::ssize(pieces_.starts); }
  int64_t FirstText(int64_t row) const;  // `row` may be the row after the last
  // A 64-bit hash of a text's tokens and of which tokens carry loss.
  uint64_t HashOfText(int64_t text) const;
  // The reference log-probability of each text. They are computed and written here before training
  // reads the rows.
  std::span<float> references() const { return *references_; }

 private:
  struct Pieces {
    std::vector<int64_t> starts;   // offsets in the source
    std::vector<int32_t> lengths;  // each is 1 to T
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
  // Calls visit(start, length) for the pieces of a row, in order.
  template <typename Visit>
  void ForEachPiece(int64_t row, Visit visit) const;

  std::shared_ptr<const TokenSource> source_;
  PackingOptions options_;
  Counts counts_;
  Pieces pieces_;  // sorted by row
  // [rows + 1], each row's first piece; empty if each row has one example.
  std::vector<int64_t> first_;
  std::shared_ptr<std::vector<float>> references_;  // [pieces], for pairs only
};

// Describes the packing: "1200 examples in 340 rows of 512 tokens, 97.3 % full", and a line about
// examples that were too long, if any. Each line is indented and ends with a newline. Sums over all
// `parts` that are not nullptr. Empty: nothing is packed.
std::string PackingText(std::span<const PackedRows* const> parts);

}  // namespace plimsoll::data
