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
  double seconds = 0;        // seconds of a step
  int64_t device_bytes = 0;  // in a bound with one memory, host bytes are included
  int64_t host_bytes = 0;
};

// Limits for the two arenas.
struct Budget {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t device = kNone;
  int64_t host = kNone;
  DeviceProfile profile = {};  // the overhead outside the arena

  // The limit for the process's total on the device.
  int64_t process() const { return device == kNone ? kNone : profile.ProcessBytes(device); }
  bool Admits(const Cost& cost) const {
    return cost.device_bytes <= device && cost.host_bytes <= host;
  }
};

}  // namespace plimsoll::memory
