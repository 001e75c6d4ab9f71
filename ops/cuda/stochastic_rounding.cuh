// Stochastic rounding to bf16 on the GPU: the bits of base/low_precision.h.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

// Pairs of 16-bit elements as the words that hold them, the first in the lower half.
__device__ inline uint32_t LowerHalves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x5410);
}
__device__ inline uint32_t UpperHalves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x7632);
}
// The counterpart of base/low_precision.h. `random` has 16 bits; the upper half of the result is
// used.
__device__ inline uint32_t RoundStochastically(float value, uint32_t random) {
  const uint32_t bits = __float_as_uint(value);
  return isnan(value) ? bits | 0x400000 : bits + random;
}

// Two elements rounded with the 16-bit halves of one random word, the lower half for the first.
__device__ inline uint32_t RoundPairStochastically(float first, float second, uint32_t random) {
  return UpperHalves(RoundStochastically(first, random & 0xffff),
                     RoundStochastically(second, random >> 16));
}

}  // namespace plimsoll::ops
