#include "graph/name_table.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace plimsoll::graph {
namespace {

constexpr size_t kLeastSlots = 16;

uint32_t HashOf(std::string_view name) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(name));
}

}  // namespace

TensorId NameTable::Find(std::string_view name, std::span<const Tensor> tensors) const {
  return slots_.empty() ? kNoTensor : slots_[SlotOf(name, tensors)].id;
}

void NameTable::Insert(std::string_view name, TensorId id) {
  if (3 * (used_ + 1) > 2 * slots_.size()) Rebuild(std::max(kLeastSlots, 2 * slots_.size()));
  Put({HashOf(name), id});
  ++used_;
}

void NameTable::Erase(std::string_view name, std::span<const Tensor> tensors) {
  size_t free = SlotOf(name, tensors);
  slots_[free] = {};
  --used_;
  // Entries after the erased one move into the gap if a search would no longer reach them.
  for (size_t slot = Next(free); slots_[slot].id != kNoTensor; slot = Next(slot)) {
    const size_t mask = slots_.size() - 1;
    const size_t from_home = (slot - Home(slots_[slot].hash)) & mask;
    if (from_home < ((slot - free) & mask)) continue;
    slots_[free] = std::exchange(slots_[slot], {});
    free = slot;
  }
}

void NameTable::Renumber(std::span<const TensorId> renumbered) {
  for (Slot& slot : slots_) {
    if (slot.id != kNoTensor) slot.id = renumbered[slot.id];
  }
  Rebuild(slots_.size());
}

size_t NameTable::SlotOf(std::string_view name, std::span<const Tensor> tensors) const {
  const uint32_t hash = HashOf(name);
  for (size_t slot = Home(hash);; slot = Next(slot)) {
    const Slot& entry = slots_[slot];
    if (entry.id == kNoTensor) return slot;
    if (entry.hash == hash && tensors[entry.id].name == name) return slot;
  }
}

void NameTable::Put(Slot entry) {
  size_t slot = Home(entry.hash);
  while (slots_[slot].id != kNoTensor) slot = Next(slot);
  slots_[slot] = entry;
}

void NameTable::Rebuild(size_t slots) {
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(slots));
  used_ = 0;
  for (const Slot& slot : before) {
    if (slot.id == kNoTensor) continue;
    Put(slot);
    ++used_;
  }
}

}  // namespace plimsoll::graph
