// What a plan costs, or may cost, and the limits that it has to keep.
#pragma once

#include <cstdint>
#include <limits>

#include "memory/device_profile.h"

namespace plimsoll::memory {

struct Cost {
  enum class Kind {
    kBound,     // no plan that it stands for takes less, but for a little in sums over blocks
    kEstimate,  // near the truth, on either side
    kExact      // of finished programs
  };
  Kind kind = Kind::kBound;
  double seconds = 0;        // of a step
  int64_t device_bytes = 0;  // in a bound, with one memory, those of the host count here, too
  int64_t host_bytes = 0;
};

// Limits for the two arenas.
struct Budget {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t device = kNone;
  int64_t host = kNone;
  DeviceProfile profile = {};  // what the process takes of the device besides the arena

  // The limit for the whole process on the device.
  int64_t process() const { return device == kNone ? kNone : profile.ProcessBytes(device); }
  bool Admits(const Cost& cost) const {
    return cost.device_bytes <= device && cost.host_bytes <= host;
  }
};

}  // namespace plimsoll::memory
