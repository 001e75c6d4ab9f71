// Memory for prefetched batches: a few places, each of which holds the slots (input tensors) of one
// batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/slot.h"

namespace plimsoll::data {

class BatchMemory {
 public:
  virtual ~BatchMemory() = default;

  virtual int places() const = 0;
  virtual std::span<const graph::Slot> slots(int place) const = 0;
  // Waits until nothing reads the place any more. Any thread may call it. Throws when a device that
  // reads the place has failed.
  virtual void Await(int place) = 0;
  int64_t bytes() const;  // of all places together
};

// Batches in ordinary host memory.
class OwnBatchMemory final : public BatchMemory {
 public:
  // Allocates `places` copies of the slots `like`.
  OwnBatchMemory(std::span<const graph::Slot> like, int places);

  int places() const override { return static_cast<int>(places_.size()); }
  std::span<const graph::Slot> slots(int place) const override {
    return places_[static_cast<size_t>(place)].slots;
  }
  void Await(int /*place*/) override {}

 private:
  struct Place {
    std::vector<std::vector<std::byte>> memory;  // a buffer for each slot
    std::vector<graph::Slot> slots;              // the slots point into `memory`
  };
  std::vector<Place> places_;
};

}  // namespace plimsoll::data
