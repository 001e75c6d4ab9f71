#include "data/tokens/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/random.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kOrderStream = 1, kOffsetStream = 2;

// From this number of windows on, a source leaves out one window to make room for a random offset
// (loader.h).
constexpr int64_t kWindowsToSpareOne = 16;

struct WindowCut {
  int64_t windows = 0;
  int64_t max_offset = 0;  // in tokens
};

WindowCut CutSource(int64_t tokens, int64_t sequence) {
  // The last token can only be a target, not an input.
  const int64_t whole = std::max<int64_t>(tokens - 1, 0) / sequence;
  if (whole == 0) return {};
  WindowCut cut;
  cut.windows = whole < kWindowsToSpareOne ? whole : whole - 1;
  cut.max_offset = tokens - 1 - cut.windows * sequence;
  // Larger offsets would give the same windows, except the first one.
  cut.max_offset = std::min(cut.max_offset, sequence - 1);
  return cut;
}

// A stream of random numbers, different from those of WindowOrder.
constexpr uint64_t kPartStream = 3;

// The seed for a part of a mixture. The first part uses `seed` unchanged, so that a mixture of one
// part reads its sources in the same order as a plain list of these sources is read.
uint64_t SeedOf(uint64_t seed, size_t part) {
  return part == 0 ? seed : Hash(seed, kPartStream, part);
}

std::vector<MixturePart> Alone(SourceList sources) {
  std::vector<MixturePart> parts(1);
  parts[0].sources = std::move(sources);
  return parts;
}

void CheckOptions(int64_t batch, int64_t sequence, int64_t accumulate, int64_t rank,
                  int64_t ranks) {
  if (batch < 1 || sequence < 1 || accumulate < 1 || ranks < 1 || rank < 0 || rank >= ranks) {
    throw InternalError(
        fmt::format("data: batch {}, sequence {}, accumulate {}, rank {} of {} make no sense",
                    batch, sequence, accumulate, rank, ranks));
  }
}

// The item at `index` of an epoch's shuffled order.
int64_t Shuffled(int64_t items, uint64_t seed, int64_t epoch, int64_t index) {
  const Permutation order(static_cast<uint64_t>(items),
                          Hash(seed, kOrderStream, static_cast<uint64_t>(epoch)));
  return static_cast<int64_t>(order(static_cast<uint64_t>(index)));
}

}  // namespace

DataOrder ParseDataOrder(std::string_view text) {
  if (text == "shuffled") return DataOrder::kShuffled;
  if (text == "consecutive") return DataOrder::kConsecutive;
  throw UserError(fmt::format("data.order: '{}' is neither shuffled nor consecutive", text));
}

WindowOrder::WindowOrder(TokenStream stream, DataOrder order, uint64_t seed, int64_t sequence)
    : order_(order), seed_(seed), sequence_(sequence), stream_(std::move(stream)) {
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
  const int64_t window = Shuffled(windows_, seed_, epoch, index);
  const auto after = std::upper_bound(first_.begin(), first_.end(), window);
  const auto source = static_cast<size_t>(after - first_.begin()) - 1;
  const WindowCut cut = CutSource(stream_.sources()[source]->size(), sequence_);
  const uint64_t random = Hash(Hash(seed_, kOffsetStream, epoch_key), source);
  const auto offset =
      static_cast<int64_t>(Below(random, static_cast<uint64_t>(cut.max_offset) + 1));
  return stream_.start(source) + offset + (window - first_[source]) * sequence_;
}

PartOrder::PartOrder(const MixturePart& part, DataOrder order, uint64_t seed, int64_t sequence)
    : order_(order),
      seed_(seed),
      sequence_(sequence),
      windows_(TokenStream(part.sources, part.document_end), order, seed, sequence),
      rows_(part.rows) {}

int64_t PartOrder::sequences() const { return rows_ ? rows_->rows() : windows_.windows(); }

int64_t PartOrder::RowOf(int64_t number) const {
  const int64_t rows = rows_->rows(), index = number % rows;
  return order_ == DataOrder::kConsecutive ? index : Shuffled(rows, seed_, number / rows, index);
}

void PartOrder::Read(int64_t number, const TokenRow& out) const {
  if (rows_) return rows_->Read(RowOf(number), out);
  stream().ReadWindow(windows_.Start(number), sequence_, out);
}

int64_t PartOrder::CountTargets(int64_t number) const {
  if (rows_) return rows_->CountTargets(RowOf(number));
  if (stream().counts_all()) return sequence_;
  return stream().CountWindow(windows_.Start(number), sequence_);
}

int64_t PartOrder::CountTokens(int64_t number) const {
  return rows_ ? rows_->CountTokens(RowOf(number)) : sequence_;
}

BatchLoader::BatchLoader(SourceList sources, const LoaderOptions& options, const std::string& key)
    : BatchLoader(Alone(std::move(sources)), options, key) {}

BatchLoader::BatchLoader(std::vector<MixturePart> parts, const LoaderOptions& options,
                         const std::string& key)
    : options_(options), mixture_(parts) {
  const LoaderOptions& o = options_;
  CheckOptions(o.batch, o.sequence, o.accumulate, o.data_rank, o.data_ranks);
  for (size_t part = 0; part < parts.size(); ++part) {
    parts_.emplace_back(parts[part], o.order, SeedOf(o.seed, part), o.sequence);
    const PartOrder& read = parts_.back();
    tokens_ += read.tokens();
    has_ignored_ = has_ignored_ || read.has_ignored();
    pads_ = pads_ || read.rows() != nullptr;
    if (read.sequences() > 0 || parts.size() == 1) continue;
    throw UserError(
        fmt::format("{}[{}] ({}): {} {} less than one window of {} + 1; give more data or lower "
                    "model.sequence",
                    key, part, parts[part].name, Counted(read.tokens(), "token"),
                    read.tokens() == 1 ? "is" : "are", o.sequence));
  }
  const PartOrder& only = parts_[0];
  if (parts_.size() > 1 || only.sequences() >= sequences_per_step()) return;
  const std::string step = fmt::format(
      "a step reads {} (micro_batch {} x accumulate {} x data "
      "ranks {})",
      sequences_per_step(), o.batch, o.accumulate, o.data_ranks);
  if (only.rows() != nullptr) {
    throw UserError(
        fmt::format("{}: {} {} {} of {}, but {}; give more examples or "
                    "lower train.micro_batch or train.accumulate",
                    key, Counted(only.rows()->counts().examples, "example"),
                    only.rows()->counts().examples == 1 ? "gives" : "give",
                    Counted(only.sequences(), "row"), Counted(o.sequence, "token"), step));
  }
  const size_t files = only.stream().sources().size();
  throw UserError(fmt::format(
      "{}: {} in {} {} {} of {} + 1 tokens, but {}; give more "
      "data or lower train.micro_batch or model.sequence",
      key, Counted(tokens_, "token"), Counted(files, "part"), tokens_ == 1 ? "gives" : "give",
      Counted(only.sequences(), "window"), o.sequence, step));
}

int64_t BatchLoader::sequences_per_step() const {
  return options_.batch * options_.accumulate * options_.data_ranks;
}

void BatchLoader::Fill(int64_t step, int64_t micro_step, int32_t* tokens, int32_t* targets,
                       int32_t* positions) const {
  const LoaderOptions& o = options_;
  if (step < 0 || micro_step < 0 || micro_step >= o.accumulate) {
    throw InternalError(
        fmt::format("data: step {}, micro-step {} of {}", step, micro_step, o.accumulate));
  }
  FillFrom(FirstSequence(step) + (micro_step * o.data_ranks + o.data_rank) * o.batch, o.batch,
           {.tokens = tokens, .targets = targets, .positions = positions});
}

void BatchLoader::FillFrom(int64_t first, int64_t rows, const TokenRow& out) const {
  for (int64_t row = 0; row < rows; ++row) {
    const auto [part, number] = mixture_.Of(first + row);
    const int64_t at = row * options_.sequence;
    parts_[part].Read(number,
                      {.tokens = out.tokens + at,
                       .targets = out.targets + at,
                       .positions = out.positions == nullptr ? nullptr : out.positions + at,
                       .reference = out.reference == nullptr ? nullptr : out.reference + at});
  }
}

int64_t BatchLoader::CountTargets(int64_t step) const {
  return CountTargets(FirstSequence(step), sequences_per_step());
}

int64_t BatchLoader::CountTargets(int64_t first, int64_t sequences) const {
  if (!has_ignored_) return sequences * options_.sequence;
  int64_t total = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const auto [part, number] = mixture_.Of(first + i);
    total += parts_[part].CountTargets(number);
  }
  return total;
}

int64_t BatchLoader::CountTokens(int64_t first, int64_t sequences) const {
  if (!pads_) return sequences * options_.sequence;
  int64_t total = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const auto [part, number] = mixture_.Of(first + i);
    total += parts_[part].CountTokens(number);
  }
  return total;
}

int64_t BatchLoader::SequencesWithoutTargets() const {
  int64_t without = 0;
  for (const PartOrder& part : parts_) {
    // A window without a mask has targets, unless all its targets follow an end of a document.
    if (part.rows() == nullptr && !part.stream().has_mask()) continue;
    for (int64_t i = 0; i < part.sequences(); ++i) without += part.CountTargets(i) == 0;
  }
  return without;
}

}  // namespace plimsoll::data
