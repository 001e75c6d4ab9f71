// Energy that the device uses, as the machine's own counters tell: a GPU's by its driver (NVML),
// the processors' by RAPL, which Linux shows under /sys/class/powercap. In joules. In every build.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/device_kind.h"

namespace plimsoll::runtime {

class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;

  // Used since some moment before: only differences say anything. RAPL's counters wrap around,
  // under full load after some minutes: between two calls they may do so once. Nothing when the
  // counter can't be read any more. Takes well under a millisecond.
  virtual std::optional<double> Joules() = 0;

  // What is counted, and whose work is in it besides this process's: "the whole GPU, by NVML".
  virtual std::string Counts() const = 0;
};

// A counter, or why there is none.
struct FoundEnergyCounter {
  std::unique_ptr<EnergyCounter> counter;
  std::string problem;
};

// Of the GPU that this process would use, or of all processors.
FoundEnergyCounter FindEnergyCounter(DeviceKind kind);

// Of the processors' packages, whose zones lie in `folder`.
FoundEnergyCounter FindRapl(const std::string& folder);

}  // namespace plimsoll::runtime
