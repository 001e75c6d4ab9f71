// A buffer to place: its bytes and its lifetime.
#pragma once

#include <cstdint>

namespace plimsoll::memory {

struct Interval {
  int64_t size = 0;  // bytes ≥ 0
  int32_t birth = 0;
  int32_t death = 0;  // the last time at which the buffer is alive; ≥ birth ≥ 0

  bool Meets(const Interval& other) const { return birth <= other.death && other.birth <= death; }
};

}  // namespace plimsoll::memory
