#include "data/tokens/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace plimsoll::data {
namespace {

// A stream of random numbers drawn from the seed, besides those of window_order.cc.
constexpr uint64_t kPartStream = 3;

// The first part uses the seed itself, so that a single part has the order of a plain list.
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

}  // namespace

BatchLoader::BatchLoader(SourceList sources, const LoaderOptions& options, const std::string& key)
    : BatchLoader(Alone(std::move(sources)), options, key) {}

BatchLoader::BatchLoader(std::vector<MixturePart> parts, const LoaderOptions& options,
                         const std::string& key)
    : options_(options), mixture_(parts) {
  const LoaderOptions& o = options_;
  CheckOptions(o.batch, o.sequence, o.accumulate, o.data_rank, o.data_ranks);
  for (size_t part = 0; part < parts.size(); ++part) {
    parts_.emplace_back(std::move(parts[part].sources), o.order, SeedOf(o.seed, part), o.sequence);
    const TokenStream& stream = parts_.back().stream();
    tokens_ += stream.size();
    has_mask_ = has_mask_ || stream.has_mask();
    if (parts_.back().windows() > 0 || parts.size() == 1) continue;
    throw UserError(fmt::format(
        "{}[{}] ({}): {} tokens are less than one window of {} + 1; give more data or lower "
        "model.sequence",
        key, part, parts[part].name, stream.size(), o.sequence));
  }
  const int64_t windows = parts_[0].windows();
  if (parts_.size() == 1 && windows < sequences_per_step()) {
    const size_t files = parts_[0].stream().sources().size();
    throw UserError(fmt::format(
        "{}: {} tokens in {} part{} give {} windows of {} + 1 tokens, but a step reads {} "
        "(micro_batch {} x accumulate {} x data ranks {}); give more data or lower "
        "train.micro_batch or model.sequence",
        key, tokens_, files, files == 1 ? "" : "s", windows, o.sequence, sequences_per_step(),
        o.batch, o.accumulate, o.data_ranks));
  }
}

int64_t BatchLoader::sequences_per_step() const {
  return options_.batch * options_.accumulate * options_.data_ranks;
}

void BatchLoader::Fill(int64_t step, int64_t micro_step, int32_t* tokens, int32_t* targets) const {
  const LoaderOptions& o = options_;
  if (step < 0 || micro_step < 0 || micro_step >= o.accumulate) {
    throw InternalError(
        fmt::format("data: step {}, micro-step {} of {}", step, micro_step, o.accumulate));
  }
  FillFrom(FirstSequence(step) + (micro_step * o.data_ranks + o.data_rank) * o.batch, o.batch,
           tokens, targets);
}

void BatchLoader::FillFrom(int64_t first, int64_t rows, int32_t* tokens, int32_t* targets) const {
  const int64_t sequence = options_.sequence;
  for (int64_t row = 0; row < rows; ++row) {
    const auto [part, number] = mixture_.Of(first + row);
    const WindowOrder& windows = parts_[part];
    windows.stream().ReadWindow(windows.Start(number), sequence, tokens + row * sequence,
                                targets + row * sequence);
  }
}

int64_t BatchLoader::CountTargets(int64_t step) const {
  return CountTargets(FirstSequence(step), sequences_per_step());
}

int64_t BatchLoader::CountTargets(int64_t first, int64_t sequences) const {
  if (!has_mask_) return sequences * options_.sequence;
  int64_t total = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const auto [part, number] = mixture_.Of(first + i);
    const WindowOrder& windows = parts_[part];
    total += windows.stream().CountWindow(windows.Start(number), options_.sequence);
  }
  return total;
}

int64_t BatchLoader::SequencesWithoutTargets() const {
  if (!has_mask_) return 0;
  int64_t without = 0;
  for (const WindowOrder& windows : parts_) {
    for (int64_t i = 0; i < windows.windows(); ++i) {
      without += windows.stream().CountWindow(windows.Start(i), options_.sequence) == 0;
    }
  }
  return without;
}

}  // namespace plimsoll::data
