// Compares whether two ways to do the same work give the same bits, by a hash of their results on
// the same numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::ops {

// Device memory that consists of 16-bit numbers.
using ResultMemory = std::span<std::byte>;

// A hash of the memory's content, which depends on every bit and its position; it is the same in
// every process. Waits for the stream.
uint64_t HashOf(std::span<const ResultMemory> results, cudaStream_t stream);

}  // namespace plimsoll::ops
