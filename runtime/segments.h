// Device memory in segments of a few MiB or more. A segment is reserved and returned in one piece
// while programs run.
#pragma once

#include <cstdint>

namespace plimsoll::runtime {

class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // Returns the address of `bytes` > 0, at least page-aligned, or 0 if the memory is refused.
  virtual uintptr_t Reserve(int64_t bytes) = 0;
  virtual void Return(uintptr_t address, int64_t bytes) = 0;
  // Sets the bytes of a segment; on a GPU, in order with the GPU's work.
  virtual void Fill(uintptr_t address, int64_t bytes, unsigned char value) = 0;
};

}  // namespace plimsoll::runtime
