// When the temporaries of a program get memory and give it back, for allocators that work while the
// program runs. Made by memory/; it is to these allocators what Layout is to the arena.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mesh.h"
#include "graph/tensor.h"

namespace plimsoll::runtime {

struct AllocationSchedule {
  struct Buffer {
    int64_t bytes = 0;
    graph::Place place = graph::Place::kDevice;
  };
  std::vector<Buffer> buffers;
  // By TensorId, aliases resolved: index into buffers, or -1 (persistent, or not used by any node).
  std::vector<int32_t> buffer_of;
  // Buffers that the host fills before a run or reads after it: they always have memory.
  std::vector<int32_t> held;
  // By node: buffers that get memory before the node runs, and buffers that give it back
  // afterwards.
  std::vector<std::vector<int32_t>> born, dying;
  MeshPosition position;  // of the rank whose own parts (graph::Alias) the aliases are
};

}  // namespace plimsoll::runtime
