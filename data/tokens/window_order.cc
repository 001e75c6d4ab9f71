#include "data/tokens/window_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kOrderStream = 1, kOffsetStream = 2;

// A source with fewer windows than this gives up none (see the header).
constexpr int64_t kWindowsToSpareOne = 16;

struct Cut {
  int64_t windows = 0;
  int64_t max_offset = 0;  // tokens
};

Cut CutSource(int64_t tokens, int64_t sequence) {
  // The last token can only be a target.
  const int64_t whole = std::max<int64_t>(tokens - 1, 0) / sequence;
  if (whole == 0) return {};
  Cut cut;
  cut.windows = whole < kWindowsToSpareOne ? whole : whole - 1;
  cut.max_offset = tokens - 1 - cut.windows * sequence;
  // Larger offsets would only repeat the same cut without its first window.
  cut.max_offset = std::min(cut.max_offset, sequence - 1);
  return cut;
}

}  // namespace

DataOrder ParseDataOrder(std::string_view text) {
  if (text == "shuffled") return DataOrder::kShuffled;
  if (text == "consecutive") return DataOrder::kConsecutive;
  throw UserError(fmt::format("data.order: '{}' is neither shuffled nor consecutive", text));
}

WindowOrder::WindowOrder(SourceList sources, DataOrder order, uint64_t seed, int64_t sequence)
    : order_(order), seed_(seed), sequence_(sequence), stream_(std::move(sources)) {
  if (order == DataOrder::kConsecutive) {
    windows_ = std::max<int64_t>(stream_.size() - 1, 0) / sequence;
    return;
  }
  first_.push_back(0);
  for (const auto& source : stream_.sources()) {
    windows_ += CutSource(source->size(), sequence).windows;
    first_.push_back(windows_);
  }
}

int64_t WindowOrder::Start(int64_t number) const {
  const int64_t epoch = number / windows_, index = number % windows_;
  if (order_ == DataOrder::kConsecutive) return index * sequence_;

  const auto epoch_key = static_cast<uint64_t>(epoch);
  const Permutation order(static_cast<uint64_t>(windows_), Hash(seed_, kOrderStream, epoch_key));
  const auto window = static_cast<int64_t>(order(static_cast<uint64_t>(index)));
  const auto after = std::upper_bound(first_.begin(), first_.end(), window);
  const auto source = static_cast<size_t>(after - first_.begin()) - 1;
  const Cut cut = CutSource(stream_.sources()[source]->size(), sequence_);
  const uint64_t random = Hash(Hash(seed_, kOffsetStream, epoch_key), source);
  const auto offset =
      static_cast<int64_t>(Below(random, static_cast<uint64_t>(cut.max_offset) + 1));
  return stream_.start(source) + offset + (window - first_[source]) * sequence_;
}

}  // namespace plimsoll::data
