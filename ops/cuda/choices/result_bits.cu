// The hash is the sum of MixBits(position, value) over all 16-bit numbers, modulo 2⁶⁴. One thread
// per number, in grid-stride loops; integer atomics, so that the order makes no difference.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/choices/result_bits.h"
#include "ops/cuda/mix_bits.cuh"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 2048;

__device__ unsigned long long hash_sum;

__global__ void HashKernel(const uint16_t* numbers, int64_t count, uint64_t first) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  uint64_t sum = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    sum += MixBits((first + static_cast<uint64_t>(i)) << 16 | numbers[i]);
  }
  atomicAdd(&hash_sum, static_cast<unsigned long long>(sum));
}

}  // namespace

uint64_t HashOf(std::span<const ResultMemory> results, cudaStream_t stream) {
  unsigned long long sum = 0;
  gpu::Check(
      cudaMemcpyToSymbolAsync(hash_sum, &sum, sizeof(sum), 0, cudaMemcpyHostToDevice, stream),
      "cudaMemcpyToSymbolAsync");
  uint64_t first = 0;
  for (const ResultMemory& result : results) {
    const auto count = static_cast<int64_t>(result.size() / sizeof(uint16_t));
    if (count == 0) continue;
    const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
    HashKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        reinterpret_cast<const uint16_t*>(result.data()), count, first);
    gpu::CheckLaunch("HashOf");
    first += static_cast<uint64_t>(count);
  }
  gpu::Check(
      cudaMemcpyFromSymbolAsync(&sum, hash_sum, sizeof(sum), 0, cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyFromSymbolAsync");
  gpu::Check(cudaStreamSynchronize(stream), "the hash of a result");
  return sum;
}

}  // namespace plimsoll::ops
