// Kernels of the runtime itself, which fill and inspect memory. All are enqueued on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::runtime {

// Fills memory with numbers in ±[2⁻⁷, 1) as bf16, which are plausible as float32 and fp16 too, so
// that kernels can be timed on them. `bytes` is a multiple of 2.
void FillPlausible(std::byte* data, int64_t bytes, cudaStream_t stream);

// Sets byte i of [begin, end) of the arena to a function of i and `run`.
void FillPattern(std::byte* arena, int64_t begin, int64_t end, uint64_t run, cudaStream_t stream);

// Lowers *first to the smallest i in [begin, end) whose byte no longer holds its pattern, if there
// is a smaller one.
void FindChanged(const std::byte* arena, int64_t begin, int64_t end, uint64_t run,
                 unsigned long long* first, cudaStream_t stream);

// Lowers *first to tag + i for the first element i that is NaN or infinite, if that is smaller.
// Does nothing for types without such values.
void FindNotFinite(const std::byte* data, graph::DType dtype, int64_t count, uint64_t tag,
                   unsigned long long* first, cudaStream_t stream);

}  // namespace plimsoll::runtime
