// Code shared by ops that compute a tensor y and its 8-bit codes at once, with a scale that is
// expected from earlier steps (ops/linear/quantize_activation.h, ops/norms/quantize_norm.h). Their
// first outputs are transposed, codes and scale.
//
// In the first step no magnitude is expected. Then a kernel before the main one finds y's largest
// magnitude; in all other steps it returns at once. Another kernel after the main one writes the
// scale for the largest magnitude that the main kernel has found, which is NaN if y isn't finite.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/quantize_tiles.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear/quantize.h"
#include "ops/linear/quantize_workspace.h"

namespace plimsoll::ops::cast_tiles {

// Two words at the start of the workspace, which begin as 0: y's largest magnitude, as the kernel
// before the main one finds it, and as the main kernel finds it.
inline uint32_t* FirstLargest(const CudaContext& ctx) {
  return static_cast<uint32_t*>(ctx.workspace);
}

// The results that the main kernel writes, except sums. `expected`: the input of magnitudes.
inline Cast ExpectedCast(const CudaContext& ctx, const graph::Shape& y, size_t expected) {
  uint32_t* const words = FirstLargest(ctx);
  gpu::Check(cudaMemsetAsync(words, 0, 2 * sizeof(*words), ctx.stream), "cudaMemsetAsync");
  Cast cast{};
  cast.rows = y.rows();
  cast.columns = y.dim(-1);
  cast.padded = TransposedRow(cast.rows);
  cast.transposed = ctx.out<uint8_t>(0);
  cast.codes = ctx.out<uint8_t>(1);
  cast.largest = words;
  cast.expected = ctx.in<uint32_t>(expected) + ctx.attributes.GetInt("index");
  cast.found = words + 1;
  return cast;
}

// The number of thread blocks of the kernel before the main one, which is grid-stride. They are
// few, because in most steps they do nothing.
inline unsigned FirstBlocks(const CudaContext& ctx, int64_t blocks) {
  constexpr int kFirstBlocks = 4;  // per multiprocessor
  const int64_t most = int64_t{ctx.libraries.multiprocessors()} * kFirstBlocks;
  return static_cast<unsigned>(std::min(blocks, most));
}

// nullptr if not requested.
template <typename Code>
__global__ void FinishKernel(const uint32_t* found, const uint32_t* expected, float* scale,
                             uint32_t* largest) {
  if (largest != nullptr) *largest = *found;
  if (scale != nullptr) {
    *scale = ScaleOf(MagnitudeFor(*found, *expected), Code::kLargest).to_number;
  }
}

// Runs after the main kernel: writes the scale, and the largest magnitude if that is an output.
template <typename Code>
void FinishCast(const CudaContext& ctx, const Cast& cast, size_t largest) {
  if (!ctx.has_output(2) && !ctx.has_output(largest)) return;
  FinishKernel<Code><<<1, 1, 0, ctx.stream>>>(cast.found, cast.expected, ctx.out<float>(2),
                                              ctx.out<uint32_t>(largest));
  gpu::CheckLaunch("scale of codes");
}

}  // namespace plimsoll::ops::cast_tiles
