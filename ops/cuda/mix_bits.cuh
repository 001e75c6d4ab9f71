// The finalizer of MurmurHash3: every bit of the result depends on every bit of x.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

__device__ inline uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDull;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return x ^ (x >> 33);
}

}  // namespace plimsoll::ops
