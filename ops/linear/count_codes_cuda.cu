// counts = acc + weight · numbers of elements, by |x| / scale (ops/linear/count_codes.h).
//
// Threads take packs of 16 bytes, grid-stride. A block adds its three numbers by atomic additions
// of integers, whose result doesn't depend on their order; one warp then converts the numbers to
// counts. Bytes: x once.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear/count_codes.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
// Number of blocks that run at once on a multiprocessor.
constexpr int kBlocks = 8;
constexpr int kCounts = 3;

struct Numbers {
  uint32_t of[kCounts] = {};

  __device__ void Add(float x, float to_code, const CodeRange& range) {
    const float magnitude = fabsf(x), code = __fmul_rn(magnitude, to_code);
    const bool finite = isfinite(magnitude);
    of[0] += finite && code >= range.saturated;
    of[1] += magnitude > 0 && code <= range.zeroed;
    of[2] += !finite;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    CountCodesKernel(const T* x, int64_t n, const float* scale, CodeRange range,
                     unsigned long long* numbers) {
  const float to_code = __frcp_rn(*scale);
  const int64_t packs = n / kPackSize<T>;
  const auto* const from = reinterpret_cast<const Pack<T, kPackSize<T>>*>(x);
  Numbers here;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs;
       i += int64_t{gridDim.x} * kThreads) {
    float values[kPackSize<T>];
    ToFloats(from[i], values);
#pragma unroll
    for (int k = 0; k < kPackSize<T>; ++k) here.Add(values[k], to_code, range);
  }
  const int64_t rest = packs * kPackSize<T> + threadIdx.x;
  if (blockIdx.x == 0 && rest < n) here.Add(ToFloat(x[rest]), to_code, range);

  __shared__ uint32_t of_block[kCounts];
  if (threadIdx.x < kCounts) of_block[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kCounts; ++k) {
    if (here.of[k] != 0) atomicAdd(&of_block[k], here.of[k]);
  }
  __syncthreads();
  if (threadIdx.x < kCounts && of_block[threadIdx.x] != 0) {
    atomicAdd(&numbers[threadIdx.x], of_block[threadIdx.x]);
  }
}

__global__ void FinishCounts(const unsigned long long* numbers, const float* acc, float weight,
                             float* counts) {
  const unsigned k = threadIdx.x;
  if (k >= kCounts) return;
  counts[k] = (acc == nullptr ? 0 : acc[k]) + weight * static_cast<float>(numbers[k]);
}

void Run(const CudaContext& ctx) {
  const CodeRange range = RangeOf(*graph::ParseDType(ctx.attributes.GetWord("dtype")));
  const int64_t n = ctx.in_shape(0).elements();
  auto* const numbers = static_cast<unsigned long long*>(ctx.workspace);
  gpu::Check(cudaMemsetAsync(numbers, 0, kCounts * sizeof(*numbers), ctx.stream),
             "cudaMemsetAsync");
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const int64_t of_block = int64_t{kThreads} * kPackSize<T>;
    const int64_t blocks = std::clamp<int64_t>((n + of_block - 1) / of_block, 1,
                                               int64_t{ctx.libraries.multiprocessors()} * kBlocks);
    CountCodesKernel<<<static_cast<unsigned>(blocks), kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), n, ctx.in<float>(1), range, numbers);
    gpu::CheckLaunch("count codes");
  });
  FinishCounts<<<1, kWarp, 0, ctx.stream>>>(numbers, ctx.has_input(2) ? ctx.in<float>(2) : nullptr,
                                            static_cast<float>(ctx.attributes.GetReal("weight")),
                                            ctx.out<float>(0));
  gpu::CheckLaunch("count codes");
}

const CudaKernelRegistration kRegistration({"count_codes", &Run});

}  // namespace
}  // namespace plimsoll::ops
