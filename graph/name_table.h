// Finds the tensors of a program by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace plimsoll::graph {

// A hash table of ids, with linear probing. It holds no names: it compares the names of the
// tensors. The memory solver copies thousands of programs, and so copies no names of the table.
class NameTable {
 public:
  // Returns kNoTensor if no tensor has that name.
  TensorId Find(std::string_view name, std::span<const Tensor> tensors) const;
  // The name must be absent from the table. The tensor need not exist yet.
  void Insert(std::string_view name, TensorId id);
  // The name must be in the table.
  void Erase(std::string_view name, std::span<const Tensor> tensors);
  // Replaces each id by renumbered[id]; ids that become kNoTensor are erased.
  void Renumber(std::span<const TensorId> renumbered);

 private:
  struct Slot {
    uint32_t hash = 0;
    TensorId id = kNoTensor;  // kNoTensor: the slot is free
  };

  size_t Home(uint32_t hash) const { return hash & (slots_.size() - 1); }
  size_t Next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  // The slot of the name, or the free slot in which a search for the name ends.
  size_t SlotOf(std::string_view name, std::span<const Tensor> tensors) const;
  void Put(Slot entry);
  void Rebuild(size_t slots);

  std::vector<Slot>
      slots_;  // empty, or the number of slots is a power of two; at least a third of them are free
  size_t used_ = 0;
};

}  // namespace plimsoll::graph
