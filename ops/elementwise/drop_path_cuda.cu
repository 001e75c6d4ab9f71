// y[b,…] = word[b] < p · 2³² ? 0 : x[b,…] / (1 − p). A block takes a part of one sample, four packs
// of 16 bytes a thread, and draws the sample's word once a thread. Bytes: 2·n·s, less the elements
// of dropped samples, which are not read.
#include "base/philox.h"
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/philox.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;

// A sample has `sample` elements, which N divides, and `blocks` blocks.
template <int N, typename S>
__global__ void __launch_bounds__(kThreads)
    DropPathKernel(int64_t sample, int64_t blocks, const int32_t* rng, uint64_t stream,
                   uint32_t threshold, float scale, const S* x, S* y) {
  const int64_t b = blockIdx.x / blocks;
  const uint4 words = PhiloxBlock(rng, stream, static_cast<uint64_t>(b / 4));
  const uint32_t of_four[4] = {words.x, words.y, words.z, words.w};
  const bool dropped = of_four[b % 4] < threshold;
  const int64_t begin = (blockIdx.x % blocks * kThreads * kUnroll + threadIdx.x) * N;
  float values[kUnroll][N] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = begin + u * kThreads * N;
    if (i < sample && !dropped) LoadPack<N>(x + b * sample + i, values[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = begin + u * kThreads * N;
    if (i >= sample) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) values[u][k] *= scale;
    StoreGlobal(y + b * sample + i, values[u]);
  }
}

void DropPath(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements();
  if (n == 0) return;
  const int64_t samples = ctx.in_shape(0).dim(0), sample = n / samples;
  const double p = ctx.attributes.GetReal("p");
  const uint32_t threshold = DropThreshold(p);
  const float scale = static_cast<float>(1 / (1 - p));
  const auto stream = static_cast<uint64_t>(ctx.attributes.GetInt("key"));
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const S* x = ctx.in<S>(0);
    S* y = ctx.out<S>(0);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      constexpr int64_t kElements = int64_t{kThreads} * kUnroll * N;
      const int64_t blocks = (sample + kElements - 1) / kElements;
      DropPathKernel<N, S><<<static_cast<unsigned>(blocks * samples), kThreads, 0, ctx.stream>>>(
          sample, blocks, ctx.in<int32_t>(1), stream, threshold, scale, x, y);
      gpu::CheckLaunch("drop_path");
    };
    constexpr int N = kPackSize<S>;
    const bool packs = sample % N == 0 && IsAligned(x, 16) && IsAligned(y, 16);
    packs ? launch(std::integral_constant<int, N>()) : launch(std::integral_constant<int, 1>());
  });
}

const CudaKernelRegistration kDropPath({"drop_path", &DropPath});

}  // namespace
}  // namespace plimsoll::ops
