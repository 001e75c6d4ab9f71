// Launches that work on many tensors: a table in the kernel's parameter describes each tensor, and
// which blocks of the launch work on it.
#pragma once

namespace plimsoll::ops {

// The entry on which a block works. Entries are in the order of their blocks; an entry has the
// blocks from its `first_block` on.
template <typename Entry>
__device__ const Entry& EntryOf(const Entry* entries, int size, int block) {
  int low = 0, high = size - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (entries[middle].first_block <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return entries[low];
}

}  // namespace plimsoll::ops
