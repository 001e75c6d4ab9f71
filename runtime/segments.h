// Memory of a device in segments of a few MiB and more, reserved and returned as a whole while
// programs run.
#pragma once

#include <cstdint>

namespace plimsoll::runtime {

class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // Returns the address of `bytes` > 0, at least page-aligned. 0: refused.
  virtual uintptr_t Reserve(int64_t bytes) = 0;
  virtual void Return(uintptr_t address, int64_t bytes) = 0;
  // Sets bytes of a segment; on a GPU in order with its work.
  virtual void Fill(uintptr_t address, int64_t bytes, unsigned char value) = 0;
};

}  // namespace plimsoll::runtime
