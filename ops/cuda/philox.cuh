// base/philox.h on the GPU, with the same words. Block b of the stream `stream` holds words 4b … 4b
// + 3.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace plimsoll::ops {

// `key`: seed and micro-step; `stream`: the op's attribute "key".
template <int kRounds = kPhiloxRounds>
__device__ uint4 PhiloxBlock(uint2 key, uint64_t stream, uint64_t block) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
  uint4 c = make_uint4(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32));
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t first = uint64_t{c.x} * kMultiplier0, second = uint64_t{c.z} * kMultiplier1;
    c = make_uint4(static_cast<uint32_t>(second >> 32) ^ c.y ^ key.x, static_cast<uint32_t>(second),
                   static_cast<uint32_t>(first >> 32) ^ c.w ^ key.y, static_cast<uint32_t>(first));
    key.x += kKeyStep0;
    key.y += kKeyStep1;
  }
  return c;
}

// `rng`: the op's input, on the device.
__device__ inline uint2 PhiloxKey(const int32_t* rng) {
  return make_uint2(static_cast<uint32_t>(rng[0]), static_cast<uint32_t>(rng[1]));
}
template <int kRounds = kPhiloxRounds>
__device__ uint4 PhiloxBlock(const int32_t* rng, uint64_t stream, uint64_t block) {
  return PhiloxBlock<kRounds>(PhiloxKey(rng), stream, block);
}

}  // namespace plimsoll::ops
