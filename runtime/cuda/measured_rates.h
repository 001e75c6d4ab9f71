// Measured rates of a GPU: the best rates of its memory and its multiprocessors, and the rates of
// its link to the host.
#pragma once

#include <optional>

#include "runtime/device_kind.h"

namespace plimsoll::runtime {

// The best rates of a device, per second; 0 means unknown.
struct Ceilings {
  double copy_bytes = 0;  // a copy within its memory, bytes read plus bytes written
  double bf16_flops = 0;  // a large square matrix product; fp16 has the same rate
  double tf32_flops = 0;
  double fp32_flops = 0;
};

// Measures the GPU in use, which takes a second and, meanwhile, 1 GiB of its memory. Other devices
// have no known ceilings.
Ceilings MeasureCeilings(DeviceKind device);

// The rates at which a GPU copies to and from pinned host memory, in bytes per second.
struct HostLink {
  double to_device = 0, to_host = 0;            // one direction at a time
  double both_to_device = 0, both_to_host = 0;  // both directions at the same time
};

// Measures the GPU that MakeCudaDevice would use, with 32 MiB of its memory and of the host's,
// which are freed afterwards; the process keeps its CUDA context. nullopt if there is no GPU or not
// enough memory.
std::optional<HostLink> MeasureHostLink();

}  // namespace plimsoll::runtime
