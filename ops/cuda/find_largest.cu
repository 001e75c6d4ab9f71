// largest = max |x|, by its bits
//
// Threads take packs of 16 bytes, grid-stride, four in flight. A block adds its maximum by one
// atomic maximum of integers, whose result doesn't depend on their order. Bytes: x once.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/find_largest.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;   // number of loads that a thread has in flight
constexpr int kBlocks = 8;  // number of blocks that run at once on a multiprocessor

// A running maximum. 16-bit magnitudes have the order of the float32 numbers that they convert to.
// Of each word's two elements, one updates `odd`, the other `even`.
template <typename T>
struct Maximum {
  uint32_t odd = 0, even = 0;

  __device__ void AddWord(uint32_t word) {
    odd = max(odd, word & 0x7fffffff);  // the lower half matters only if the upper halves are equal
    if constexpr (sizeof(T) == 2) even = max(even, word << 17);
  }
  __device__ void AddElement(T x) { odd = max(odd, BitsOf(x)); }
  __device__ void AddPack(const uint4& pack) {
    AddWord(pack.x);
    AddWord(pack.y);
    AddWord(pack.z);
    AddWord(pack.w);
  }

  // The bits of |x| as the upper half of a word, or as the word.
  static __device__ uint32_t BitsOf(T x) {
    if constexpr (sizeof(T) == 4) return __float_as_uint(x) & 0x7fffffff;
    if constexpr (sizeof(T) == 2) return (reinterpret_cast<const uint16_t&>(x) & 0x7fffu) << 16;
  }
  __device__ uint32_t Float32Bits() const {
    if constexpr (sizeof(T) == 4) return odd;
    const auto bits = static_cast<uint16_t>(max(odd >> 16, even >> 17));
    return __float_as_uint(ToFloat(reinterpret_cast<const T&>(bits))) & 0x7fffffff;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    LargestMagnitudeKernel(const T* x, int64_t n, uint32_t* largest) {
  __shared__ uint32_t shared[kThreads / kWarp];
  const int64_t packs = n / kPackSize<T>;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const auto* const from = reinterpret_cast<const uint4*>(x);
  Maximum<T> maximum;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kLoads - 1) * stride < packs; i += kLoads * stride) {
    uint4 loaded[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) loaded[k] = from[i + k * stride];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) maximum.AddPack(loaded[k]);
  }
  for (; i < packs; i += stride) maximum.AddPack(from[i]);
  const int64_t rest = packs * kPackSize<T> + threadIdx.x;
  if (blockIdx.x == 0 && rest < n) maximum.AddElement(x[rest]);

  AddLargest<kThreads>(maximum.Float32Bits(), shared, largest);
}

}  // namespace

void LargestMagnitude(cudaStream_t stream, graph::DType dtype, const void* x, int64_t n,
                      int multiprocessors, uint32_t* largest) {
  gpu::Check(cudaMemsetAsync(largest, 0, sizeof(*largest), stream), "cudaMemsetAsync");
  if (n == 0) return;
  DispatchCuda(dtype, [&]<typename T>() {
    constexpr int64_t kOfBlock = int64_t{kThreads} * kLoads * kPackSize<T>;
    const auto blocks = static_cast<unsigned>(
        std::min((n + kOfBlock - 1) / kOfBlock, int64_t{multiprocessors} * kBlocks));
    LargestMagnitudeKernel<<<blocks, kThreads, 0, stream>>>(static_cast<const T*>(x), n, largest);
    gpu::CheckLaunch("largest magnitude");
  });
}

}  // namespace plimsoll::ops
