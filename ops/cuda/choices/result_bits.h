// Whether two ways to do the same work give the same bits: compared by a hash of their results on
// the same numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::ops {

// Device memory, in whole numbers of 16 bits.
using ResultMemory = std::span<std::byte>;

// A hash of the memory's content, in which every bit and its place count; the same in every
// process. Waits for the stream.
uint64_t HashOf(std::span<const ResultMemory> results, cudaStream_t stream);

}  // namespace plimsoll::ops
