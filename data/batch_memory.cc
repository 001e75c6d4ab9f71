#include "data/batch_memory.h"

namespace plimsoll::data {

int64_t BatchMemory::bytes() const {
  int64_t sum = 0;
  for (int place = 0; place < places(); ++place) {
    for (const graph::Slot& slot : slots(place)) sum += std::ssize(slot.bytes);
  }
  return sum;
}

OwnBatchMemory::OwnBatchMemory(std::span<const graph::Slot> like, int places)
    : places_(static_cast<size_t>(places)) {
  for (Place& place : places_) {
    for (const graph::Slot& slot : like) {
      place.memory.emplace_back(slot.bytes.size());
      place.slots.push_back({slot.name, slot.type, place.memory.back()});
    }
  }
}

}  // namespace plimsoll::data
