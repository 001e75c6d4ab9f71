// The best rates of a device, as measured on it.
#pragma once

#include "runtime/device_kind.h"

namespace plimsoll::runtime {

// Per second; 0: not known.
struct Ceilings {
  double copy_bytes = 0;  // of a copy within its memory, read and written
  double bf16_flops = 0;  // of a large square matrix product; fp16 runs at the same rate
  double tf32_flops = 0;
  double fp32_flops = 0;
};

// Measures the GPU in use, which takes a second and, meanwhile, a GiB of its memory. For other
// devices nothing is known.
Ceilings MeasureCeilings(DeviceKind device);

}  // namespace plimsoll::runtime
