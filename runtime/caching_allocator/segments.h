// Where a caching allocator gets its memory: segments of a few MiB and more, reserved and returned
// as a whole.
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

// Addresses without memory, for replaying what an allocator would do. With a limit, it refuses to
// have more than that many bytes reserved at once.
class SimulatedSegments : public SegmentSource {
 public:
  explicit SimulatedSegments(int64_t limit_bytes = INT64_MAX) : limit_bytes_(limit_bytes) {}

  uintptr_t Reserve(int64_t bytes) override;
  void Return(uintptr_t address, int64_t bytes) override;
  void Fill(uintptr_t, int64_t, unsigned char) override {}
  int64_t reserved_bytes() const { return reserved_bytes_; }

 private:
  int64_t limit_bytes_;
  int64_t reserved_bytes_ = 0;
  uintptr_t next_ = uintptr_t{1} << 40;
};

// Anonymous memory of the system. Its zeroed pages are provided at their first use and dropped when
// the segment is returned: this is the cost of frequent reserving and returning.
class MappedSegments : public SegmentSource {
 public:
  uintptr_t Reserve(int64_t bytes) override;
  void Return(uintptr_t address, int64_t bytes) override;
  void Fill(uintptr_t address, int64_t bytes, unsigned char value) override;
};

}  // namespace plimsoll::runtime
