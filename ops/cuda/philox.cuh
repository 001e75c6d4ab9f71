// base/philox.h on the GPU: the same words. Block b of the stream `stream` holds words 4b … 4b + 3.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

// `key`: seed and micro-step; `stream`: the op's attribute "key".
__device__ inline uint4 PhiloxBlock(uint2 key, uint64_t stream, uint64_t block) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
  uint4 c = make_uint4(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32));
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(kMultiplier0, c.x), low0 = kMultiplier0 * c.x;
    const uint32_t high1 = __umulhi(kMultiplier1, c.z), low1 = kMultiplier1 * c.z;
    c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
    key.x += kKeyStep0;
    key.y += kKeyStep1;
  }
  return c;
}

// `rng`: the op's input, on the device.
__device__ inline uint2 PhiloxKey(const int32_t* rng) {
  return make_uint2(static_cast<uint32_t>(rng[0]), static_cast<uint32_t>(rng[1]));
}
__device__ inline uint4 PhiloxBlock(const int32_t* rng, uint64_t stream, uint64_t block) {
  return PhiloxBlock(PhiloxKey(rng), stream, block);
}

}  // namespace plimsoll::ops
