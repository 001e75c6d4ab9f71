// Kernels of the runtime itself, which fill and inspect memory. All are enqueued on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "graph/dtype.h"
#include "ops/kernel.h"

namespace plimsoll::runtime {

// Fills memory with numbers of a type of 8, 16 or 32 bits, so that kernels can be timed on them.
// The numbers are in ±[2⁻⁷, 1), those of e4m3 in ±[2⁻⁶, 2). They depend only on the place and on
// `seed`, which is below 2¹⁶. Numbers of bf16 are also plausible as float32 and fp16, but not as
// 8-bit codes, some of which would be NaN. `bytes` is a multiple of 2 unless the type has 8 bits.
void FillPlausible(std::byte* data, int64_t bytes, graph::DType dtype, uint64_t seed,
                   cudaStream_t stream);

// Fills a call's floating-point inputs, 8-bit codes and workspace with numbers like
// FillPlausible's. They depend only on the call's types: algorithms that are chosen by their
// results must not read what other calls left.
void FillOperands(const ops::KernelCall& call, cudaStream_t stream);

// Sets byte i of [begin, end) of the arena to a function of i and `run`.
void FillPattern(std::byte* arena, int64_t begin, int64_t end, uint64_t run, cudaStream_t stream);

// Lowers *first to the smallest i in [begin, end) whose byte no longer holds its pattern, if that i
// is smaller.
void FindChanged(const std::byte* arena, int64_t begin, int64_t end, uint64_t run,
                 unsigned long long* first, cudaStream_t stream);

// Lowers *first to tag + i for the first element i that is NaN or infinite, if that sum is smaller.
// Does nothing for types without such values.
void FindNotFinite(const std::byte* data, graph::DType dtype, int64_t count, uint64_t tag,
                   unsigned long long* first, cudaStream_t stream);

}  // namespace plimsoll::runtime
