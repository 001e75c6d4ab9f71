// Evaluation batches: held-out samples, divided among data ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/prefetch.h"
#include "data/source.h"

namespace plimsoll::data {

// Every held-out sample, once and in order. The last batch is padded with rows that carry no loss,
// so that the evaluated samples do not depend on the split into batches and ranks. If the source
// has no such rows (Source::pads), the samples that do not fill a batch are left out.
class HeldOutBatches {
 public:
  // Each data rank gets batches of `batch` samples. `samples` must be finite. If the source has
  // rows without loss, `workers` threads prefetch the following batches (prefetch.h), up to the
  // last batch. Throws a UserError when no batch can be filled.
  HeldOutBatches(std::unique_ptr<const Source> samples, int64_t batch, int64_t data_rank = 0,
                 int64_t data_ranks = 1, int64_t workers = 0);

  int64_t count() const { return count_; }  // the number of batches, equal on every rank
  void Fill(int64_t index, std::span<const graph::Slot> slots) const;
  // The first sample of this rank's batch.
  int64_t First(int64_t index) const { return draws_.First(index, 0); }
  // Totals over all batches and ranks.
  int64_t CountTargets(std::string_view objective = "") const;
  int64_t CountSamples() const;
  std::string Unread() const { return samples_->Unread(); }

 private:
  std::unique_ptr<const Source> samples_;
  Draws draws_;  // draws one batch a step
  int64_t count_ = 0;
  int64_t workers_ = 0;
  mutable std::unique_ptr<Prefetcher> prefetcher_;  // exists while batches are read in order
};

}  // namespace plimsoll::data
