// Kernels of the runtime itself: they fill memory and look at it. All enqueue on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::runtime {

// Numbers in ±[2⁻⁷, 1) as bf16, which are plausible as float32 and fp16 too: what kernels may be
// timed on. `bytes` is a multiple of 2.
void FillPlausible(std::byte* data, int64_t bytes, cudaStream_t stream);

// Byte i of [begin, end) of the arena becomes a function of i and `run`.
void FillPattern(std::byte* arena, int64_t begin, int64_t end, uint64_t run, cudaStream_t stream);

// *first becomes the smallest i in [begin, end) that doesn't hold its pattern any more, if that is
// smaller than what it is.
void FindChanged(const std::byte* arena, int64_t begin, int64_t end, uint64_t run,
                 unsigned long long* first, cudaStream_t stream);

// *first becomes tag + i for the first element i that is NaN or infinite, if that is smaller than
// what it is. Of types without such values nothing is looked at.
void FindNotFinite(const std::byte* data, graph::DType dtype, int64_t count, uint64_t tag,
                   unsigned long long* first, cudaStream_t stream);

}  // namespace plimsoll::runtime
