// Segments of addresses without memory, for simulating an allocator.
#pragma once

#include <cstdint>

#include "runtime/segments.h"

namespace plimsoll::runtime {

class SimulatedSegments : public SegmentSource {
 public:
  // Refuses a segment if more than `limit_bytes` would be reserved at once.
  explicit SimulatedSegments(int64_t limit_bytes = INT64_MAX) : limit_bytes_(limit_bytes) {}

  uintptr_t Reserve(int64_t bytes) override {
    if (bytes > limit_bytes_ - reserved_bytes_) return 0;
    reserved_bytes_ += bytes;
    const uintptr_t address = next_;
    // Leaves a gap after each segment, as between real mappings.
    constexpr uintptr_t kPage = 4096;
    next_ += (static_cast<uintptr_t>(bytes) + 2 * kPage - 1) / kPage * kPage;
    return address;
  }
  void Return(uintptr_t, int64_t bytes) override { reserved_bytes_ -= bytes; }
  void Fill(uintptr_t, int64_t, unsigned char) override {}
  int64_t reserved_bytes() const { return reserved_bytes_; }

 private:
  int64_t limit_bytes_;
  int64_t reserved_bytes_ = 0;
  uintptr_t next_ = uintptr_t{1} << 40;
};

}  // namespace plimsoll::runtime
