// The best rates of the current GPU, measured on it: the yardstick for the times of kernels.
#pragma once

#include "gpu/libraries.h"

namespace plimsoll::gpu {

// Per second.
struct Ceilings {
  double copy_bytes = 0;  // of a copy within the GPU's memory, read and written
  double bf16_flops = 0;  // of a large square matrix product; fp16 runs at the same rate
  double tf32_flops = 0;
  double fp32_flops = 0;
};

// Takes about a second, and 1 GiB meanwhile: call it before the arena is allocated. Operands are
// random, since products of zeros run faster than any real ones.
Ceilings MeasureCeilings(Libraries& libraries);

}  // namespace plimsoll::gpu
