// y = acc + x, rounded stochastically (ops/elementwise/add_rounded.h), for kernels that keep
// gradients in bf16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace plimsoll::ops {

// The source of a sum's random bits: element i draws from block first_block + i / 8 of Philox.
struct RoundingStream {
  const int32_t* rng;  // the op's input, on the device
  uint64_t key;        // the attribute "key" of the node
  int64_t first_block = 0;
};

// y may be acc. X: float, __nv_bfloat16.
template <typename X>
void AddRounded(cudaStream_t stream, const RoundingStream& random, int64_t n,
                const __nv_bfloat16* acc, const X* x, __nv_bfloat16* y);

}  // namespace plimsoll::ops
