// Energy that the device uses, in joules, from the machine's own counters: a GPU's from its driver
// (NVML), the processors' from RAPL, which Linux shows under /sys/class/powercap. Part of every
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
  // around, after some minutes under full load; a counter may do so once between two calls. nullopt
  // when the counter can't be read any more. Takes well under a millisecond.
  virtual std::optional<double> Joules() = 0;

  // Describes what the counter measures: "the whole GPU, by NVML". The counter includes the work of
  // other processes.
  virtual std::string Counts() const = 0;
};

// A counter, or the reason why there is none.
struct FoundEnergyCounter {
  std::unique_ptr<EnergyCounter> counter;
  std::string problem;
};

// Finds the counter of the GPU that this process would use, or of all processors.
FoundEnergyCounter FindEnergyCounter(DeviceKind kind);

// Finds the counters of the processors' packages, whose zones lie in `folder`.
FoundEnergyCounter FindRapl(const std::string& folder);

}  // namespace plimsoll::runtime
