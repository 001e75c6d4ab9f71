// The best rates of the current GPU, measured on it. Times of kernels are compared with them.
#pragma once

#include "gpu/libraries.h"

namespace plimsoll::gpu {

// The rates of the GPU, per second.
struct Ceilings {
  double copy_bytes = 0;  // a copy within the GPU's memory, bytes read plus bytes written
  double bf16_flops = 0;  // a large square matrix product; fp16 has the same rate
  double tf32_flops = 0;
  double fp32_flops = 0;
};

// Measures the rates, which takes about a second and, meanwhile, 1 GiB: call it before the arena is
// allocated. Operands are random, since products of zeros run faster than any real products.
Ceilings MeasureCeilings(Libraries& libraries);

}  // namespace plimsoll::gpu
