// The largest magnitude of a tensor, as the bits of a float32. It is the integer maximum of the
// elements' bits, which keeps infinity and NaN (ops/linear/code_scale.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {

inline float AsFloat(float x) { return x; }
inline float AsFloat(double x) { return static_cast<float>(x); }
inline float AsFloat(BFloat16 x) { return ToFloat(x); }
inline float AsFloat(Float16 x) { return ToFloat(x); }

// The largest magnitude of n elements, found on the calling thread.
template <typename S>
uint32_t LargestOf(const S* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(AsFloat(x[i])) & 0x7fffffff);
  }
  return largest;
}

template <typename S>
uint32_t LargestMagnitude(ThreadPool& pool, const S* x, int64_t n) {
  std::atomic<uint32_t> largest = 0;
  pool.ParallelFor(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    const uint32_t here = LargestOf(x + begin, end - begin);
    uint32_t seen = largest.load();
    while (seen < here && !largest.compare_exchange_weak(seen, here)) {
    }
  });
  return largest;
}

// Finds the largest magnitudes of the op's outputs, which must be complete, and writes those that
// are requested to the outputs for them (finds_largest).
inline void StoreLargest(const CpuContext& ctx) {
  const std::vector<int>& found = ctx.op.finds_largest;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto of = static_cast<size_t>(found[i]);
    const size_t largest = ctx.op.outputs.size() - found.size() + i;
    if (!ctx.has_output(largest)) continue;
    DispatchStored(ctx.outputs[of].type.dtype, [&]<typename S>() {
      const int64_t n = ctx.out_shape(of).elements();
      *ctx.out<float>(largest) =
          std::bit_cast<float>(LargestMagnitude(ctx.pool, ctx.out<S>(of), n));
    });
  }
}

}  // namespace plimsoll::ops
