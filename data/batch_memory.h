// Where prefetched batches lie: a few places, each with memory for the slots of one batch.
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
  // Returns once nothing reads the place any more; any thread may call. Throws when a device that
  // reads it has failed.
  virtual void Await(int place) = 0;
  int64_t bytes() const;  // of all places
};

// Memory of the host's own.
class OwnBatchMemory final : public BatchMemory {
 public:
  // Places for slots like these.
  OwnBatchMemory(std::span<const graph::Slot> like, int places);

  int places() const override { return static_cast<int>(places_.size()); }
  std::span<const graph::Slot> slots(int place) const override {
    return places_[static_cast<size_t>(place)].slots;
  }
  void Await(int /*place*/) override {}

 private:
  struct Place {
    std::vector<std::vector<std::byte>> memory;  // by slot
    std::vector<graph::Slot> slots;              // in `memory`
  };
  std::vector<Place> places_;
};

}  // namespace plimsoll::data
