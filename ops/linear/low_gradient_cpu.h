// Gradients in bf16 on the CPU (ops/elementwise/add_rounded.h, graph/op.h: low_gradients). Threads
// share blocks of elements, whose random words are drawn into the first-level cache.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "ops/kernel.h"
#include "ops/optimizer/blocks.h"
#include "ops/simd.h"

namespace plimsoll::ops {

// y = acc + x, rounded stochastically; y may be acc. X: float or BFloat16.
template <typename X>
void AddRounded(ThreadPool& pool, const PhiloxStream& stream, int64_t n, const BFloat16* acc,
                const X* x, BFloat16* y) {
  static_assert(kBlockElements % 8 == 0 && kElementwiseGrain % kBlockElements == 0);
  ParallelBlocks(pool, n, [=](Block block) {
    alignas(64) float sums[kBlockElements];
    alignas(64) uint32_t words[kBlockElements / 2];
    stream.Words(static_cast<uint64_t>(block.begin / 2), (block.count + 1) / 2, words);
    ForVectors<float>(0, block.count, [&](int64_t i, auto count) {
      const int64_t at = block.begin + i;
      Store<float>(sums + i, Load<float>(acc + at, count) + Load<float>(x + at, count), count);
    });
    for (int64_t i = 0; i < block.count; ++i) {
      y[block.begin + i].bits = ToBf16Stochastic(sums[i], words[i / 2] >> (i % 2 * 16));
    }
  });
}

// Writes the float32 gradient `wide` to the output, added to the input `acc` if that is present.
// `rng`: the input to draw from.
inline void StoreLowGradient(const CpuContext& ctx, const float* wide, size_t acc, size_t rng,
                             size_t output) {
  const int64_t n = ctx.out_shape(output).elements();
  BFloat16* const to = ctx.out<BFloat16>(output);
  if (ctx.has_input(acc)) {
    const PhiloxStream stream(ctx.in<int32_t>(rng), ctx.attributes.GetInt("key"));
    return AddRounded(ctx.pool, stream, n, ctx.in<BFloat16>(acc), wide, to);
  }
  ctx.pool.ParallelFor(n, kElementwiseGrain, [=](int64_t begin, int64_t end) {
    ForVectors<float>(begin, end, [=](int64_t i, auto count) {
      Store<float>(to + i, Load<float>(wide + i, count), count);
    });
  });
}

}  // namespace plimsoll::ops
