// Implements runtime/cuda/measured_rates.h in builds without CUDA.
#include "runtime/cuda/measured_rates.h"

namespace plimsoll::runtime {

Ceilings MeasureCeilings(DeviceKind) { return {}; }

std::optional<HostLink> MeasureHostLink() { return std::nullopt; }

}  // namespace plimsoll::runtime
