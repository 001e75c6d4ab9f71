// base/philox.h on the GPU: the same words. Block b of the stream `stream` holds words 4b … 4b + 3.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

// `rng`: the op's input (seed, micro-step), on the device; `stream`: its attribute "key".
__device__ inline uint4 PhiloxBlock(const int32_t* rng, uint64_t stream, uint64_t block) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
  uint32_t key0 = static_cast<uint32_t>(rng[0]), key1 = static_cast<uint32_t>(rng[1]);
  uint4 c = make_uint4(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32));
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(kMultiplier0, c.x), low0 = kMultiplier0 * c.x;
    const uint32_t high1 = __umulhi(kMultiplier1, c.z), low1 = kMultiplier1 * c.z;
    c = make_uint4(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
    key0 += kKeyStep0;
    key1 += kKeyStep1;
  }
  return c;
}

}  // namespace plimsoll::ops
