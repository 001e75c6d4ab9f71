// The largest magnitude of a tensor, as the bits of a float32: their integer maximum, which keeps
// infinity and NaN (ops/linear/code_scale.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {

inline float AsFloat(float x) { return x; }
inline float AsFloat(double x) { return static_cast<float>(x); }
inline float AsFloat(BFloat16 x) { return ToFloat(x); }
inline float AsFloat(Float16 x) { return ToFloat(x); }

// Of n elements.
template <typename S>
uint32_t LargestMagnitude(ThreadPool& pool, const S* x, int64_t n) {
  std::atomic<uint32_t> largest = 0;
  pool.ParallelFor(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    uint32_t here = 0;
    for (int64_t i = begin; i < end; ++i) {
      here = std::max(here, std::bit_cast<uint32_t>(AsFloat(x[i])) & 0x7fffffff);
    }
    uint32_t seen = largest.load();
    while (seen < here && !largest.compare_exchange_weak(seen, here)) {
    }
  });
  return largest;
}

// Writes that of output `of`, which is complete, to output `largest`, if it is wanted.
inline void StoreLargest(const CpuContext& ctx, size_t of, size_t largest) {
  if (!ctx.has_output(largest)) return;
  DispatchStored(ctx.outputs[of].type.dtype, [&]<typename S>() {
    const int64_t n = ctx.out_shape(of).elements();
    *ctx.out<float>(largest) =
        std::bit_cast<float>(LargestMagnitude(ctx.pool, ctx.out<S>(of), n));
  });
}

}  // namespace plimsoll::ops
