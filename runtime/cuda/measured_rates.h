// The rates of a GPU as measured on it: the best ones of its memory and its multiprocessors, and
// those of its link to the host.
#pragma once

#include <optional>

#include "runtime/device_kind.h"

namespace plimsoll::runtime {

// The best rates of a device, per second; 0: not known.
struct Ceilings {
  double copy_bytes = 0;  // of a copy within its memory, read and written
  double bf16_flops = 0;  // of a large square matrix product; fp16 runs at the same rate
  double tf32_flops = 0;
  double fp32_flops = 0;
};

// Measures the GPU in use, which takes a second and, meanwhile, a GiB of its memory. For other
// devices nothing is known.
Ceilings MeasureCeilings(DeviceKind device);

// How fast a GPU copies to and from pinned memory of the host, in bytes a second.
struct HostLink {
  double to_device = 0, to_host = 0;            // one way alone
  double both_to_device = 0, both_to_host = 0;  // both ways at the same time
};

// Measures the GPU that MakeCudaDevice would take, with 32 MiB of its memory and of the host's,
// which it gives back; the process keeps its context. nullopt where there is no GPU or no such
// memory.
std::optional<HostLink> MeasureHostLink();

}  // namespace plimsoll::runtime
