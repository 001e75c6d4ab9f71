// The predicted or exact cost of a plan, and the limits of a budget.
#pragma once

#include <cstdint>
#include <limits>

#include "memory/device_profile.h"

namespace plimsoll::memory {

struct Cost {
  enum class Kind {
    kBound,     // a lower bound on plans' costs, except for small errors of sums over blocks
    kEstimate,  // may be too low or too high
    kExact      // measured on finished programs
  };
  Kind kind = Kind::kBound;
  double seconds = 0;  // seconds of a step
  // If host and device share one memory, a kBound includes host bytes here.
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
};

// Limits for the two arenas.
struct Budget {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t device = kNone;
  int64_t host = kNone;
  DeviceProfile profile = {};  // the overhead outside the arena

  // The limit on the device memory of the process, including the overhead outside the arena.
  int64_t process() const { return device == kNone ? kNone : profile.ProcessBytes(device); }
  bool Admits(const Cost& cost) const {
    return cost.device_bytes <= device && cost.host_bytes <= host;
  }
};

}  // namespace plimsoll::memory
