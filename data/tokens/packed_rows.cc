#include "data/tokens/packed_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/random.h"

namespace plimsoll::data {
namespace {

constexpr int32_t kNone = -1;

// Sorts the items by length, longest first, with a counting sort.
std::vector<int32_t> ByLength(std::span<const int32_t> lengths, int32_t longest) {
  std::vector<int32_t> next(static_cast<size_t>(longest) + 1);
  for (const int32_t length : lengths) {
    if (length < 1 || length > longest) {
      throw InternalError(fmt::format("packing: a length of {} for a room of {}", length, longest));
    }
    ++next[static_cast<size_t>(longest - length)];
  }
  std::exclusive_scan(next.begin(), next.end(), next.begin(), 0);
  std::vector<int32_t> order(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    order[static_cast<size_t>(next[static_cast<size_t>(longest - lengths[i])]++)] =
        static_cast<int32_t>(i);
  }
  return order;
}

// Bins ordered by their free room; among bins with equal room, first in, first out.
class OpenBins {
 public:
  explicit OpenBins(int32_t room)
      : heads_(static_cast<size_t>(room) + 1, kNone), tails_(heads_.size(), kNone) {}

  struct Bin {
    int32_t number = kNone, room = 0;
  };
  // Removes and returns a bin with the least room that is at least `length`. Its number is kNone if
  // no bin has that room.
  Bin Take(int32_t length) {
    const auto least = rooms_.lower_bound(length);
    if (least == rooms_.end()) return {};
    const Bin bin = {heads_[static_cast<size_t>(*least)], *least};
    int32_t& head = heads_[static_cast<size_t>(*least)];
    head = next_[static_cast<size_t>(bin.number)];
    if (head == kNone) rooms_.erase(least);
    return bin;
  }
  void Put(const Bin& bin) {
    if (bin.number >= std::ssize(next_)) next_.resize(static_cast<size_t>(bin.number) + 1);
    next_[static_cast<size_t>(bin.number)] = kNone;
    if (bin.room == 0) return;
    int32_t& head = heads_[static_cast<size_t>(bin.room)];
    int32_t& tail = tails_[static_cast<size_t>(bin.room)];
    if (head == kNone) {
      head = bin.number;
      rooms_.insert(bin.room);
    } else {
      next_[static_cast<size_t>(tail)] = bin.number;
    }
    tail = bin.number;
  }

 private:
  std::set<int32_t> rooms_;             // the distinct amounts of free room
  std::vector<int32_t> heads_, tails_;  // for each amount of room, a linked list of bins
  std::vector<int32_t> next_;           // for each bin, the next one in its list
};

const char* NameOf(Packing packing) { return packing == Packing::kBestFit ? "best_fit" : "none"; }

std::string TooLongText(TooLong too_long, int64_t sequence) {
  switch (too_long) {
    case TooLong::kTruncate:
      return fmt::format("were cut to their first {} (data.too_long: truncate)", sequence);
    case TooLong::kDrop:
      return "were left out (data.too_long: drop)";
    case TooLong::kSplit:
      return fmt::format("were split into pieces of {} (data.too_long: split)", sequence);
  }
  throw InternalError("packing: no such choice");
}

// Throws a UserError if no example is left.
void CheckExamples(const PackedRows::Counts& counts, bool empty, int64_t sequence,
                   const std::string& key) {
  if (counts.examples == 0) {
    throw UserError(fmt::format(
        "{}: no example has a token: the tokenizer makes none of their texts; name the model's own "
        "tokenizer",
        key));
  }
  if (empty) {
    throw UserError(fmt::format(
        "{}: no example is left: all {} have more than model.sequence {}, and "
        "data.too_long: drop leaves them out; use truncate or split, or raise model.sequence",
        key, counts.examples, Counted(sequence, "token")));
  }
}

void CheckPairs(const PackedRows::Counts& counts, int64_t sequence, TooLong too_long,
                const std::string& key) {
  if (counts.pairs > 0) return;
  throw UserError(fmt::format(
      "{}: no pair is left of {}: {} are longer than model.sequence {}, both texts together, and "
      "{} have a text without a token of its answer; raise model.sequence{}",
      key, counts.examples, counts.too_long, sequence, counts.without_targets,
      too_long == TooLong::kDrop ? ", or use data.too_long: truncate" : ""));
}

}  // namespace

BestFit FitDecreasing(std::span<const int32_t> lengths, int32_t room) {
  BestFit fit = {.order = ByLength(lengths, room), .bins = {}};
  fit.bins.reserve(lengths.size());
  OpenBins open(room);
  for (const int32_t item : fit.order) {
    const int32_t length = lengths[static_cast<size_t>(item)];
    OpenBins::Bin bin = open.Take(length);
    if (bin.number == kNone) bin = {fit.count++, room};
    bin.room -= length;
    open.Put(bin);
    fit.bins.push_back(bin.number);
  }
  return fit;
}

PackedRows::PackedRows(std::shared_ptr<const TokenSource> source, std::span<const int64_t> ends,
                       const PackingOptions& options, const std::string& key)
    : source_(std::move(source)), options_(options) {
  const int64_t sequence = options.sequence;
  if (options.packing == Packing::kConcatenate || sequence < 1 ||
      sequence > std::numeric_limits<int32_t>::max() ||
      std::ssize(ends) > std::numeric_limits<int32_t>::max() ||
      (options.pairs && (std::ssize(ends) % 2 != 0 || options.too_long == TooLong::kSplit))) {
    throw InternalError(
        fmt::format("packing: {} into rows of {}", Counted(std::ssize(ends), "example"), sequence));
  }
  if (options.pairs) {
    AddPairs(ends);
    CheckPairs(counts_, sequence, options_.too_long, key);
  } else {
    AddExamples(ends);
    CheckExamples(counts_, pieces_.starts.empty(), sequence, key);
  }
  counts_.tokens = std::accumulate(pieces_.lengths.begin(), pieces_.lengths.end(), int64_t{0});
  counts_.rows = std::ssize(pieces_.starts) / texts_of_example();
  if (options.packing == Packing::kBestFit) PackBestFit();
  if (options.pairs) {
    references_ = std::make_shared<std::vector<float>>(pieces_.starts.size());
  }
}

void PackedRows::AddExamples(std::span<const int64_t> ends) {
  const int64_t sequence = options_.sequence;
  int64_t start = 0;
  for (const int64_t end : ends) {
    const int64_t length = end - start;
    if (length > 0) ++counts_.examples;
    if (length > sequence) ++counts_.too_long;
    if (length > sequence && options_.too_long == TooLong::kTruncate) {
      pieces_.Add(start, sequence);
    } else if (length <= sequence || options_.too_long == TooLong::kSplit) {
      for (int64_t at = start; at < end; at += sequence) {
        pieces_.Add(at, std::min(sequence, end - at));
      }
    }
    start = end;
  }
}

void PackedRows::AddPairs(std::span<const int64_t> ends) {
  const int64_t sequence = options_.sequence;
  int64_t start = 0;
  for (size_t i = 0; i + 1 < ends.size(); i += 2) {
    const int64_t middle = ends[i], end = ends[i + 1];
    int64_t chosen = middle - start, rejected = end - middle;
    ++counts_.examples;
    const bool too_long = chosen + rejected > sequence;
    if (too_long) {
      ++counts_.too_long;
      const int64_t shorter = std::min({chosen, rejected, sequence / 2});
      const bool first = chosen > rejected;
      chosen = first ? sequence - shorter : shorter;
      rejected = sequence - chosen;
    }
    if (!too_long || options_.too_long == TooLong::kTruncate) {
      if (HasTarget(start, chosen) && HasTarget(middle, rejected)) {
        pieces_.Add(start, chosen);
        pieces_.Add(middle, rejected);
        ++counts_.pairs;
      } else {
        ++counts_.without_targets;
      }
    }
    start = end;
  }
}

// Whether a text of that length has a target that carries loss.
bool PackedRows::HasTarget(int64_t start, int64_t length) const {
  return length > 1 && source_->CountTargets(start + 1, length - 1) > 0;
}

// Sorts the pieces by row.
void PackedRows::PackBestFit() {
  // Pieces in each item, which is an example or a pair.
  const auto texts = static_cast<size_t>(texts_of_example());
  std::vector<int32_t> lengths;  // lengths of the items
  for (size_t i = 0; i < pieces_.lengths.size(); i += texts) {
    lengths.push_back(std::accumulate(pieces_.lengths.begin() + static_cast<int64_t>(i),
                                      pieces_.lengths.begin() + static_cast<int64_t>(i + texts),
                                      int32_t{0}));
  }
  const BestFit fit = FitDecreasing(lengths, static_cast<int32_t>(options_.sequence));
  counts_.rows = fit.count;
  first_.assign(static_cast<size_t>(fit.count) + 1, 0);
  for (const int32_t bin : fit.bins) first_[static_cast<size_t>(bin) + 1] += texts_of_example();
  std::inclusive_scan(first_.begin(), first_.end(), first_.begin());
  std::vector<int64_t> next(first_.begin(), first_.end() - 1);
  Pieces sorted;
  sorted.starts.resize(pieces_.starts.size());
  sorted.lengths.resize(pieces_.lengths.size());
  for (size_t i = 0; i < fit.order.size(); ++i) {
    for (size_t text = 0; text < texts; ++text) {
      const size_t from = static_cast<size_t>(fit.order[i]) * texts + text;
      const auto to = static_cast<size_t>(next[static_cast<size_t>(fit.bins[i])]++);
      sorted.starts[to] = pieces_.starts[from];
      sorted.lengths[to] = pieces_.lengths[from];
    }
  }
  pieces_ = std::move(sorted);
}

int64_t PackedRows::FirstText(int64_t row) const {
  return first_.empty() ? row * texts_of_example() : first_[static_cast<size_t>(row)];
}

template <typename Visit>
void PackedRows::ForEachPiece(int64_t row, Visit visit) const {
  if (row < 0 || row >= rows()) {
    throw InternalError(fmt::format("packing: row {} of {}", row, rows()));
  }
  for (auto i = static_cast<size_t>(FirstText(row)); i < static_cast<size_t>(FirstText(row + 1));
       ++i) {
    visit(pieces_.starts[i], int64_t{pieces_.lengths[i]});
  }
}

void PackedRows::Read(int64_t row, const TokenRow& out) const {
  const int64_t sequence = options_.sequence;
  int64_t at = 0;
  auto text = static_cast<size_t>(FirstText(row));
  if (out.reference != nullptr) std::fill_n(out.reference, sequence, 0.0F);
  ForEachPiece(row, [&](int64_t start, int64_t length) {
    if (out.reference != nullptr && references_) out.reference[at] = (*references_)[text++];
    source_->Read(start, length, out.tokens + at);
    std::copy_n(out.tokens + at + 1, length - 1, out.targets + at);
    source_->MaskTargets(start + 1, length - 1, out.targets + at);
    out.targets[at + length - 1] = kIgnoredTarget;
    if (out.positions != nullptr) std::iota(out.positions + at, out.positions + at + length, 0);
    at += length;
  });
  std::fill(out.tokens + at, out.tokens + sequence, 0);
  std::fill(out.targets + at, out.targets + sequence, kIgnoredTarget);
  if (out.positions != nullptr) std::iota(out.positions + at, out.positions + sequence, 0);
}

int64_t PackedRows::CountTargets(int64_t row) const {
  if (options_.pairs) return (FirstText(row + 1) - FirstText(row)) / 2;
  int64_t total = 0;
  ForEachPiece(row, [&](int64_t start, int64_t length) {
    total += source_->CountTargets(start + 1, length - 1);
  });
  return total;
}

int64_t PackedRows::CountTokens(int64_t row) const {
  int64_t total = 0;
  ForEachPiece(row, [&](int64_t /*start*/, int64_t length) { total += length; });
  return total;
}

uint64_t PackedRows::HashOfText(int64_t text) const {
  const auto number = static_cast<size_t>(text);
  const int64_t start = pieces_.starts[number], length = pieces_.lengths[number];
  std::vector<int32_t> tokens(static_cast<size_t>(length)), targets = tokens;
  source_->Read(start, length, tokens.data());
  targets = tokens;
  source_->MaskTargets(start, length, targets.data());
  uint64_t hash = static_cast<uint64_t>(length);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto counts = static_cast<uint64_t>(targets[i] != kIgnoredTarget);
    hash = Hash(hash, static_cast<uint64_t>(tokens[i]) << 1 | counts);
  }
  return hash;
}

std::string PackingText(std::span<const PackedRows* const> parts) {
  PackedRows::Counts all;
  const PackingOptions* options = nullptr;
  for (const PackedRows* const part : parts) {
    if (part == nullptr) continue;
    options = &part->options();
    all.examples += part->counts().examples;
    all.too_long += part->counts().too_long;
    all.without_targets += part->counts().without_targets;
    all.rows += part->counts().rows;
    all.tokens += part->counts().tokens;
  }
  if (options == nullptr) return "";
  const double places = static_cast<double>(all.rows) * static_cast<double>(options->sequence);
  std::string text =
      fmt::format("  {} in {} of {}, {:.1f} % full (data.packing: {})\n",
                  Counted(all.examples, options->pairs ? "pair" : "example"),
                  Counted(all.rows, "row"), Counted(options->sequence, "token"),
                  100 * static_cast<double>(all.tokens) / places, NameOf(options->packing));
  if (all.without_targets > 0) {
    text +=
        fmt::format("  left out: {} of these pairs, of which a text has no token of its answer\n",
                    all.without_targets);
  }
  if (all.too_long > 0 && options->pairs) {
    text += fmt::format("  {} of these pairs had more than {} and {}\n", all.too_long,
                        Counted(options->sequence, "token"),
                        options->too_long == TooLong::kDrop
                            ? TooLongText(TooLong::kDrop, options->sequence)
                            : "lost the ends of their longer texts (data.too_long: truncate)");
  } else if (all.too_long > 0) {
    text += fmt::format("  {} of these examples had more than {} and {}\n", all.too_long,
                        Counted(options->sequence, "token"),
                        TooLongText(options->too_long, options->sequence));
  }
  return text;
}

}  // namespace plimsoll::data
