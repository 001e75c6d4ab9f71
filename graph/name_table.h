// Finds the tensors of a program by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace plimsoll::graph {

// A hash table of ids, with linear probing. It holds no names: those of the tensors are compared.
// So a program, of which the memory solver makes thousands, is copied without a copy of each name.
class NameTable {
 public:
  // kNoTensor: there is none of that name.
  TensorId Find(std::string_view name, std::span<const Tensor> tensors) const;
  // The name must be absent; the tensor may follow.
  void Insert(std::string_view name, TensorId id);
  // The name must be there.
  void Erase(std::string_view name, std::span<const Tensor> tensors);
  // Gives each id its new one; those that become kNoTensor are erased.
  void Renumber(std::span<const TensorId> renumbered);

 private:
  struct Slot {
    uint32_t hash = 0;
    TensorId id = kNoTensor;  // kNoTensor: free
  };

  size_t Home(uint32_t hash) const { return hash & (slots_.size() - 1); }
  size_t Next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  // The slot of the name, or the free one in which a search for it ends.
  size_t SlotOf(std::string_view name, std::span<const Tensor> tensors) const;
  void Put(Slot entry);
  void Rebuild(size_t slots);

  std::vector<Slot> slots_;  // a power of two, at least a third of them free; or none
  size_t used_ = 0;
};

}  // namespace plimsoll::graph
