#include "trainer/data/loader.h"

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

EvalBatches::EvalBatches(SourceList sources, const EvalOptions& options, const std::string& key)
    : EvalBatches(Alone(std::move(sources)), options, key) {}

EvalBatches::EvalBatches(std::vector<MixturePart> parts, const EvalOptions& options,
                         const std::string& key)
    : options_(options) {
  const EvalOptions& o = options_;
  CheckOptions(o.batch, o.sequence, 1, o.data_rank, o.data_ranks);
  std::vector<int64_t> held_out;  // windows of each part
  int64_t all = 0, tokens = 0;
  for (MixturePart& part : parts) {
    const TokenStream& stream = streams_.emplace_back(std::move(part.sources));
    held_out.push_back(std::max<int64_t>(stream.size() - 1, 0) / o.sequence);
    all += held_out.back();
    tokens = std::max(tokens, stream.size());
  }
  if (all == 0) {
    throw UserError(fmt::format(
        "{}: {} tokens are less than one window of {} + 1; give more held-out data or lower "
        "model.sequence",
        key, tokens, o.sequence));
  }
  // Each part gives its share by weight as far as it reaches; parts with more windows give the
  // rest.
  const Mixture mixture(parts);
  const int64_t wanted = o.sequences > 0 ? std::min(o.sequences, all) : all;
  int64_t missing = wanted;
  std::vector<int64_t> taken;
  for (size_t part = 0; part < parts.size(); ++part) {
    taken.push_back(std::min(mixture.Count(part, wanted), held_out[part]));
    missing -= taken.back();
  }
  first_.push_back(0);
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t more = std::min(missing, held_out[part] - taken[part]);
    missing -= more;
    first_.push_back(first_.back() + taken[part] + more);
  }
  const int64_t rows = o.batch * o.data_ranks;
  count_ = (windows() + rows - 1) / rows;
}

EvalBatches::Window EvalBatches::At(int64_t index) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), index);
  const auto part = static_cast<size_t>(after - first_.begin()) - 1;
  return {streams_[part], (index - first_[part]) * options_.sequence};
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
    if (first + row < windows()) {
      const auto [stream, start] = At(first + row);
      stream.ReadWindow(start, o.sequence, row_tokens, row_targets);
    } else {
      std::fill(row_tokens, row_tokens + o.sequence, 0);
      std::fill(row_targets, row_targets + o.sequence, kIgnoredTarget);
    }
  }
}

int64_t EvalBatches::CountTargets() const {
  int64_t total = 0;
  for (int64_t w = 0; w < windows(); ++w) {
    const auto [stream, start] = At(w);
    total += stream.CountWindow(start, options_.sequence);
  }
  return total;
}

}  // namespace plimsoll::data
