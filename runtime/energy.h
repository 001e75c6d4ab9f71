// Energy that the device uses, in joules. The machine's own counters give it: a GPU's driver
// (NVML), or RAPL for processors, which Linux shows under /sys/class/powercap. Included in every
// build.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/device_kind.h"

namespace plimsoll::runtime {

class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;

  // Joules used since some earlier moment: only differences have a meaning. RAPL's counters wrap
  // around after some minutes under full load; a counter may wrap only once between two calls.
  // nullopt if the counter can no longer be read. Takes well under a millisecond.
  virtual std::optional<double> Joules() = 0;

  // Describes what the counter measures: "the whole GPU, by NVML". The counter includes the work of
  // other processes.
  virtual std::string Counts() const = 0;
};

// A counter, or the reason why no counter was found.
struct FoundEnergyCounter {
  std::unique_ptr<EnergyCounter> counter;
  std::string problem;
};

// Finds the energy counter of the GPU that this process would use, or of all processors.
FoundEnergyCounter FindEnergyCounter(DeviceKind kind);

// Finds the counters of the processors' packages, whose zones lie in `folder`.
FoundEnergyCounter FindRapl(const std::string& folder);

}  // namespace plimsoll::runtime
