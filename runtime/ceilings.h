// What a device does at best, as measured on it.
#pragma once

#include "runtime/device_kind.h"

namespace plimsoll::runtime {

// Per second. Zeros: not known.
struct Ceilings {
  double copy_bytes = 0;  // of a copy within its memory, read and written
  double bf16_flops = 0;  // of a large square matrix product; fp16 runs at the same rate
  double tf32_flops = 0;
  double fp32_flops = 0;
};

// Of the GPU in use: takes a second and, while it lasts, a GiB of its memory. Of other devices
// nothing is known.
Ceilings MeasureCeilings(DeviceKind device);

}  // namespace plimsoll::runtime
