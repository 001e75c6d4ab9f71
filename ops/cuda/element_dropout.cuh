// Dropout of a tensor's elements: element i has draw first + i (base/dropout_draws.h), so that a
// Philox block decides about eight neighbours, a pack of 16-bit elements.
#pragma once

#include <cstdint>

#include "base/dropout_draws.h"
#include "ops/cuda/philox.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

struct ElementDropout {
  const int32_t* rng = nullptr;  // seed and micro-step; nullptr without dropout
  uint64_t stream = 0;
  uint32_t threshold = 0;  // draws below it are dropped
  float keep_scale = 1;
  int64_t first = 0;  // the draw of the first element; 0 unless ranks share rows
};

// The dropout of an op with the attributes p and key, which drops elements of a tensor as large as
// input 0. `rng`: the index of the input rng. Without that input nothing is dropped.
inline ElementDropout DropoutOf(const CudaContext& ctx, size_t rng) {
  if (!ctx.has_input(rng)) return {};
  const DropRule rule(ctx.attributes.GetReal("p"));
  return {ctx.in<int32_t>(rng), static_cast<uint64_t>(ctx.attributes.GetInt("key")), rule.threshold,
          static_cast<float>(rule.keep_scale),
          ctx.ranks != nullptr ? ctx.ranks->rank() * ctx.in_shape(0).elements() : 0};
}

// Drops by the two draws of a word. The products are computed first, so that keep_scale stays an
// operand.
__device__ inline void DropTwo(const ElementDropout& d, uint32_t word, float& first,
                               float& second) {
  const float kept[2] = {__fmul_rn(first, d.keep_scale), __fmul_rn(second, d.keep_scale)};
  const uint32_t high = d.threshold << 16;
  first = word << 16 < high ? 0.0f : kept[0];
  second = word < high ? 0.0f : kept[1];
}

// Drops among the N elements that begin with element `first`, a multiple of N; d.first must be a
// multiple of kDrawsOfBlock. N is 8, or 4: then two threads compute the same block. `key`:
// PhiloxKey(d.rng).
template <int N>
__device__ void DropElements(const ElementDropout& d, uint2 key, int64_t first, float (&x)[N]) {
  static_assert(N == 8 || N == 4);
  const uint4 block = PhiloxBlock<kDropoutRounds>(
      key, d.stream, static_cast<uint64_t>(d.first + first) / kDrawsOfBlock);
  const bool upper = N == 4 && first % kDrawsOfBlock != 0;
  const uint32_t words[4] = {upper ? block.z : block.x, upper ? block.w : block.y, block.z,
                             block.w};
#pragma unroll
  for (int i = 0; i < N; i += 2) DropTwo(d, words[i / 2], x[i], x[i + 1]);
}

// Drops a single element. This is slow: it computes a Philox block for each element.
__device__ inline float DropElement(const ElementDropout& d, int64_t i, float x) {
  i += d.first;
  const uint4 block =
      PhiloxBlock<kDropoutRounds>(d.rng, d.stream, static_cast<uint64_t>(i) / kDrawsOfBlock);
  const int at = static_cast<int>(i % kDrawsOfBlock);
  const uint32_t word = at < 4 ? (at < 2 ? block.x : block.y) : (at < 6 ? block.z : block.w);
  const uint32_t draw = at % 2 != 0 ? word >> 16 : word & 0xFFFF;
  return draw < d.threshold ? 0.0f : __fmul_rn(x, d.keep_scale);
}

}  // namespace plimsoll::ops
