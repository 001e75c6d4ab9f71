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

// The samples in their order, each once. The last batch is filled up with rows that carry no loss,
// so that the evaluated samples do not depend on how they are split into batches and ranks. If the
// source has no such rows (Source::pads), the samples that do not fill a batch are left out.
class HeldOutBatches {
 public:
  // Batches of `batch` samples on each data rank. `samples` has an end. With `workers` so many
  // threads prepare the batches that follow, if the source has rows without loss (prefetch.h), and
  // end with the last batch. UserError when no batch can be filled.
  HeldOutBatches(std::unique_ptr<const Source> samples, int64_t batch, int64_t data_rank = 0,
                 int64_t data_ranks = 1, int64_t workers = 0);

  int64_t count() const { return count_; }  // batches, the same on every rank
  void Fill(int64_t index, std::span<const graph::Slot> slots) const;
  int64_t First(int64_t index) const { return draws_.First(index, 0); }  // sample, on this rank
  // Over all batches and ranks.
  int64_t CountTargets(std::string_view objective = "") const;
  int64_t CountSamples() const;
  std::string Unread() const { return samples_->Unread(); }

 private:
  std::unique_ptr<const Source> samples_;
  Draws draws_;  // a step is a batch
  int64_t count_ = 0;
  int64_t workers_ = 0;
  mutable std::unique_ptr<Prefetcher> prefetcher_;  // while batches are read in their order
};

}  // namespace plimsoll::data
