#include "trainer/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "trainer/data/random.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kOrderStream = 1, kOffsetStream = 2;

// A source with fewer windows than this keeps them all (see the header).
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
  // Offsets of a whole window and more would only repeat the cut without its first window.
  cut.max_offset = std::min(cut.max_offset, sequence - 1);
  return cut;
}

void CheckOptions(int64_t batch, int64_t sequence, int64_t accumulate, int64_t rank,
                  int64_t ranks) {
  if (batch < 1 || sequence < 1 || accumulate < 1 || ranks < 1 || rank < 0 || rank >= ranks) {
    throw InternalError(
        fmt::format("data: batch {}, sequence {}, accumulate {}, rank {} of {} make no sense",
                    batch, sequence, accumulate, rank, ranks));
  }
}

}  // namespace

DataOrder ParseDataOrder(std::string_view text) {
  if (text == "shuffled") return DataOrder::kShuffled;
  if (text == "consecutive") return DataOrder::kConsecutive;
  throw UserError(fmt::format("data.order: '{}' is neither shuffled nor consecutive", text));
}

BatchLoader::BatchLoader(SourceList sources, const LoaderOptions& options, const std::string& key)
    : options_(options), stream_(std::move(sources)) {
  const LoaderOptions& o = options_;
  CheckOptions(o.batch, o.sequence, o.accumulate, o.data_rank, o.data_ranks);
  if (o.order == DataOrder::kConsecutive) {
    windows_ = std::max<int64_t>(stream_.size() - 1, 0) / o.sequence;
  } else {
    window_starts_.push_back(0);
    for (const auto& source : stream_.sources()) {
      windows_ += CutSource(source->size(), o.sequence).windows;
      window_starts_.push_back(windows_);
    }
  }
  if (windows_ < sequences_per_step()) {
    throw UserError(fmt::format(
        "{}: {} tokens in {} part{} give {} windows of {} + 1 tokens, but a step reads {} "
        "(micro_batch {} x accumulate {} x data ranks {}); give more data or lower "
        "train.micro_batch or model.sequence",
        key, stream_.size(), stream_.sources().size(), stream_.sources().size() == 1 ? "" : "s",
        windows_, o.sequence, sequences_per_step(), o.batch, o.accumulate, o.data_ranks));
  }
}

int64_t BatchLoader::sequences_per_step() const {
  return options_.batch * options_.accumulate * options_.data_ranks;
}

int64_t BatchLoader::WindowStart(int64_t sequence_number) const {
  const int64_t epoch = sequence_number / windows_, index = sequence_number % windows_;
  if (options_.order == DataOrder::kConsecutive) return index * options_.sequence;

  const auto epoch_key = static_cast<uint64_t>(epoch);
  const Permutation order(static_cast<uint64_t>(windows_),
                          Hash(options_.seed, kOrderStream, epoch_key));
  const auto window = static_cast<int64_t>(order(static_cast<uint64_t>(index)));
  const auto after = std::upper_bound(window_starts_.begin(), window_starts_.end(), window);
  const auto source = static_cast<size_t>(after - window_starts_.begin()) - 1;
  const Cut cut = CutSource(stream_.sources()[source]->size(), options_.sequence);
  const uint64_t random = Hash(Hash(options_.seed, kOffsetStream, epoch_key), source);
  const auto offset =
      static_cast<int64_t>(Below(random, static_cast<uint64_t>(cut.max_offset) + 1));
  return stream_.start(source) + offset + (window - window_starts_[source]) * options_.sequence;
}

void BatchLoader::Fill(int64_t step, int64_t micro_step, int32_t* tokens, int32_t* targets) const {
  const LoaderOptions& o = options_;
  if (step < 0 || micro_step < 0 || micro_step >= o.accumulate) {
    throw InternalError(
        fmt::format("data: step {}, micro-step {} of {}", step, micro_step, o.accumulate));
  }
  const int64_t first = FirstSequence(step) + (micro_step * o.data_ranks + o.data_rank) * o.batch;
  for (int64_t row = 0; row < o.batch; ++row) {
    stream_.ReadWindow(WindowStart(first + row), o.sequence, tokens + row * o.sequence,
                       targets + row * o.sequence);
  }
}

int64_t BatchLoader::CountTargets(int64_t step) const {
  const int64_t sequences = sequences_per_step();
  if (!stream_.has_mask()) return sequences * options_.sequence;
  int64_t total = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    total += stream_.CountWindow(WindowStart(FirstSequence(step) + i), options_.sequence);
  }
  return total;
}

EvalBatches::EvalBatches(SourceList sources, const EvalOptions& options, const std::string& key)
    : options_(options), stream_(std::move(sources)) {
  const EvalOptions& o = options_;
  CheckOptions(o.batch, o.sequence, 1, o.data_rank, o.data_ranks);
  windows_ = std::max<int64_t>(stream_.size() - 1, 0) / o.sequence;
  if (windows_ == 0) {
    throw UserError(fmt::format(
        "{}: {} tokens are less than one window of {} + 1; give more held-out data or lower "
        "model.sequence",
        key, stream_.size(), o.sequence));
  }
  const int64_t rows = o.batch * o.data_ranks;
  if (o.batches > 0) windows_ = std::min(windows_, o.batches * o.batch);
  count_ = (windows_ + rows - 1) / rows;
}

void EvalBatches::Fill(int64_t index, int32_t* tokens, int32_t* targets) const {
  const EvalOptions& o = options_;
  if (index < 0 || index >= count_) {
    throw InternalError(fmt::format("data: evaluation batch {} of {}", index, count_));
  }
  const int64_t first = (index * o.data_ranks + o.data_rank) * o.batch;
  for (int64_t row = 0; row < o.batch; ++row) {
    int32_t* row_tokens = tokens + row * o.sequence;
    int32_t* row_targets = targets + row * o.sequence;
    if (first + row < windows_) {
      stream_.ReadWindow((first + row) * o.sequence, o.sequence, row_tokens, row_targets);
    } else {
      std::fill(row_tokens, row_tokens + o.sequence, 0);
      std::fill(row_targets, row_targets + o.sequence, kIgnoredTarget);
    }
  }
}

int64_t EvalBatches::CountTargets() const {
  if (!stream_.has_mask()) return windows_ * options_.sequence;
  int64_t total = 0;
  for (int64_t w = 0; w < windows_; ++w) {
    total += stream_.CountWindow(w * options_.sequence, options_.sequence);
  }
  return total;
}

}  // namespace plimsoll::data
