#include "data/held_out_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll::data {

HeldOutBatches::HeldOutBatches(std::unique_ptr<const Source> samples, int64_t batch,
                               int64_t data_rank, int64_t data_ranks, int64_t workers)
    : samples_(std::move(samples)),
      draws_{.batch = batch, .data_rank = data_rank, .data_ranks = data_ranks},
      workers_(samples_->pads() ? workers : 0) {
  const int64_t rows = draws_.samples_per_step(), all = samples_->samples().value();
  count_ = (samples_->pads() ? all + rows - 1 : all) / rows;
  if (count_ > 0) return;
  throw UserError(
      fmt::format("data.source: {} {} not fill the {} of a batch on all ranks; hold out more, "
                  "or lower train.micro_batch",
                  Counted(all, "held-out sample"), all == 1 ? "does" : "do", rows));
}

void HeldOutBatches::Fill(int64_t index, std::span<const graph::Slot> slots) const {
  if (index < 0 || index >= count_) {
    throw InternalError(fmt::format("data: evaluation batch {} of {}", index, count_));
  }
  if (workers_ == 0) return samples_->Fill(draws_.First(index, 0), slots);
  if (!prefetcher_) {
    prefetcher_ = std::make_unique<Prefetcher>(
        *samples_, static_cast<int>(workers_),
        [draws = draws_](int64_t number) { return draws.First(number, 0); });
  }
  prefetcher_->Fill(index, slots);
  if (index == count_ - 1) prefetcher_.reset();
}

int64_t HeldOutBatches::CountTargets(std::string_view objective) const {
  return samples_->CountTargets(objective, 0, CountSamples());
}

int64_t HeldOutBatches::CountSamples() const {
  return std::min(count_ * draws_.samples_per_step(), *samples_->samples());
}

}  // namespace plimsoll::data
