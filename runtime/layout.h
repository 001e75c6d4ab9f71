// The memory layout of one program: the offsets of its tensors. memory/ makes layouts, and
// executors use them. (The layout of ranks is in base/mesh.h.)
#pragma once

#include <cstdint>
#include <vector>

#include "base/mesh.h"
#include "graph/tensor.h"

namespace plimsoll::runtime {

// The offset of a tensor that no node uses: such a tensor has no memory.
inline constexpr int64_t kUnplaced = -1;

struct Layout {
  // For each TensorId, the offset in bytes from the start of the arena (the device's or the host's)
  // that holds the tensor. Aliases are resolved.
  std::vector<int64_t> offsets;
  // Sizes of the two arenas, and of their persistent prefixes, which all programs of a step share.
  int64_t arena_bytes = 0;
  int64_t persistent_bytes = 0;
  int64_t host_arena_bytes = 0;
  int64_t host_persistent_bytes = 0;
  int64_t alignment = 64;  // alignment of all offsets except those of aliases
  MeshPosition position;  // the rank whose own parts (graph::Alias) the offsets of aliases point to
  // Carried tensors whose values are not needed after their last readers in this program.
  std::vector<graph::TensorId> ending = {};

  int64_t offset(graph::TensorId id) const { return offsets[static_cast<size_t>(id)]; }
};

}  // namespace plimsoll::runtime
