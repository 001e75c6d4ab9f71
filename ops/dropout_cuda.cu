// y[i] = word[i] < p · 2³² ? 0 : x[i] / (1 − p). A thread takes two packs of 16 bytes; each needs
// two blocks of four Philox words for 16-bit elements, one for float32. Bytes: 2·n·s.
#include "base/philox.h"
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/philox.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 2;
constexpr int kWords = 4;  // of a Philox block

// Elements 4 · block … + 3 of a pack that begins with x[0].
__device__ inline void Drop(float* x, uint4 words, uint32_t threshold, float scale) {
  x[0] = words.x < threshold ? 0.0f : x[0] * scale;
  x[1] = words.y < threshold ? 0.0f : x[1] * scale;
  x[2] = words.z < threshold ? 0.0f : x[2] * scale;
  x[3] = words.w < threshold ? 0.0f : x[3] * scale;
}

// A thread takes kUnroll times N elements, N being a multiple of four. Unless kVectors, elements
// are read and written one by one.
template <int N, bool kVectors, typename S>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(int64_t n, const int32_t* rng, uint64_t stream, uint32_t threshold, float scale,
                  const S* x, S* y) {
  const int64_t begin = (int64_t{blockIdx.x} * kThreads * kUnroll + threadIdx.x) * N;
  float values[kUnroll][N] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t first = begin + u * kThreads * N;
    if (kVectors && first + N <= n) {
      LoadPack<N>(x + first, values[u]);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (first + i < n) values[u][i] = ToFloat(x[first + i]);
      }
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t first = begin + u * kThreads * N;
#pragma unroll
    for (int i = 0; i < N; i += kWords) {
      Drop(values[u] + i, PhiloxBlock(rng, stream, (first + i) / kWords), threshold, scale);
    }
    if (kVectors && first + N <= n) {
      StoreGlobal(y + first, values[u]);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (first + i < n) y[first + i] = FromFloat<S>(values[u][i]);
      }
    }
  }
}

void Dropout(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements();
  if (n == 0) return;
  const double p = ctx.attributes.GetReal("p");
  const uint32_t threshold = DropThreshold(p);
  const float scale = static_cast<float>(1 / (1 - p));
  const auto stream = static_cast<uint64_t>(ctx.attributes.GetInt("key"));
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    constexpr int N = kPackSize<S>;
    const S* x = ctx.in<S>(0);
    S* y = ctx.out<S>(0);
    constexpr int kElements = kThreads * kUnroll * N;
    const auto blocks = static_cast<unsigned>((n + kElements - 1) / kElements);
    const auto launch = [&](auto* kernel) {
      kernel<<<blocks, kThreads, 0, ctx.stream>>>(n, ctx.in<int32_t>(1), stream, threshold, scale,
                                                  x, y);
    };
    const bool aligned = IsAligned(x, 16) && IsAligned(y, 16);
    aligned ? launch(&DropoutKernel<N, true, S>) : launch(&DropoutKernel<N, false, S>);
    gpu::CheckLaunch("dropout");
  });
}

const CudaKernelRegistration kDropout({"dropout", &Dropout});

}  // namespace
}  // namespace plimsoll::ops
