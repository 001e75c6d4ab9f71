// Formulas in ops/pooling/global_avg_pool_cpu.cc. Forward: the threads of a block are distributed
// over up to 32 packs of 16 bytes of a pixel (x) and over the pixels of an image (y), and their
// sums are added pairwise. If the images have too few channels to fill a GPU, several blocks share
// an image's pixels, and a second kernel adds their sums in order
// (ops/pooling/global_avg_pool_split.h). Backward: a thread writes 16 bytes of a pixel. Bytes: the
// input once, the output.
#include <algorithm>

#include "ops/cuda/pool_packs.cuh"
#include "ops/cuda_kernel.h"
#include "ops/pooling/global_avg_pool_split.h"

namespace plimsoll::ops {
namespace {

template <typename S>
struct Means {
  const S* x;
  S* y;
  float* partials;  // [images][parts][channels], if there are several parts
  int64_t pixels, channels;
  uint32_t parts, tiles;  // number of parts of an image's pixels, and of tiles of its channels
};

template <int N, typename S>
__global__ void __launch_bounds__(kPoolThreads) SumKernel(const Means<S> m) {
  __shared__ float shared[N][kPoolThreads];
  const uint32_t tile = blockIdx.x % m.tiles, chunk = blockIdx.x / m.tiles;
  const uint32_t part = chunk % m.parts, image = chunk / m.parts;
  const int64_t channel = (int64_t{tile} * blockDim.x + threadIdx.x) * N;
  const int64_t length = (m.pixels + m.parts - 1) / m.parts;
  const int64_t end = min(m.pixels, (part + 1) * length);
  float sums[N] = {};
  if (channel < m.channels) {
    const S* x = m.x + image * m.pixels * m.channels + channel;
#pragma unroll 4
    for (int64_t pixel = part * length + threadIdx.y; pixel < end; pixel += blockDim.y) {
      float values[N];
      LoadPack<N>(x + pixel * m.channels, values);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += values[i];
    }
  }
  const uint32_t at = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < N; ++i) shared[i][at] = sums[i];
  for (uint32_t half = kPoolThreads / 2; half >= blockDim.x; half /= 2) {
    __syncthreads();
    if (at >= half) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) shared[i][at] += shared[i][at + half];
  }
  if (threadIdx.y > 0 || channel >= m.channels) return;
  if (m.parts > 1) {
    float* partial = m.partials + int64_t{chunk} * m.channels + channel;
#pragma unroll
    for (int i = 0; i < N; ++i) partial[i] = shared[i][at];
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] = __fdiv_rn(shared[i][at], static_cast<float>(m.pixels));
  StoreGlobal(m.y + image * m.channels + channel, sums);
}

template <typename S>
__global__ void __launch_bounds__(kPoolThreads) AddPartsKernel(const Means<S> m, int64_t results) {
  const int64_t at = int64_t{blockIdx.x} * kPoolThreads + threadIdx.x;
  if (at >= results) return;
  const int64_t image = at / m.channels;
  const float* partial = m.partials + image * m.parts * m.channels + (at - image * m.channels);
  float sum = 0;
#pragma unroll 8
  for (uint32_t part = 0; part < m.parts; ++part) sum += partial[part * m.channels];
  m.y[at] = FromFloat<S>(__fdiv_rn(sum, static_cast<float>(m.pixels)));
}

template <int N, typename S>
void LaunchSums(const CudaContext& ctx) {
  const graph::Shape& x = ctx.in_shape(0);
  const int64_t packs = x.dim(3) / N;
  unsigned along = 1;
  while (along < 32 && along < packs) along *= 2;
  const Means<S> all{.x = ctx.in<S>(0),
                     .y = ctx.out<S>(0),
                     .partials = static_cast<float*>(ctx.workspace),
                     .pixels = x.dim(1) * x.dim(2),
                     .channels = x.dim(3),
                     .parts = static_cast<uint32_t>(GlobalAvgPoolParts(x)),
                     .tiles = static_cast<uint32_t>((packs + along - 1) / along)};
  const int64_t blocks_per_image = int64_t{all.parts} * all.tiles;
  ForImages(x.dim(0), blocks_per_image, [&](int64_t first, int64_t images) {
    Means<S> part = all;
    part.x += first * all.pixels * all.channels;
    part.y += first * all.channels;
    if (all.parts > 1) part.partials += first * all.parts * all.channels;
    const auto blocks = static_cast<unsigned>(images * blocks_per_image);
    SumKernel<N><<<blocks, dim3(along, kPoolThreads / along), 0, ctx.stream>>>(part);
    gpu::CheckLaunch("global_avg_pool");
  });
  const int64_t results = ctx.out_shape(0).elements();
  if (all.parts == 1 || results == 0) return;
  const auto blocks = static_cast<unsigned>((results + kPoolThreads - 1) / kPoolThreads);
  AddPartsKernel<<<blocks, kPoolThreads, 0, ctx.stream>>>(all, results);
  gpu::CheckLaunch("the parts of global_avg_pool");
}

void GlobalAvgPool(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    constexpr int N = kPackSize<S>;
    const bool aligned = ctx.in_shape(0).dim(3) % N == 0 && Aligned(ctx.in<S>(0), ctx.out<S>(0));
    aligned ? LaunchSums<N, S>(ctx) : LaunchSums<1, S>(ctx);
  });
}

template <int N, typename S>
__global__ void __launch_bounds__(kPoolThreads)
    SpreadKernel(uint32_t packs, uint32_t per_image, uint32_t per_pixel, float pixels, const S* dy,
                 S* dx) {
  const uint32_t pack = blockIdx.x * kPoolThreads + threadIdx.x;
  if (pack >= packs) return;
  const int64_t image = pack / per_image;
  float values[N];
  LoadPack<N>(dy + (image * per_pixel + pack % per_pixel) * N, values);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = __fdiv_rn(values[i], pixels);
  StoreGlobal(dx + int64_t{pack} * N, values);
}

template <int N, typename S>
void LaunchSpread(const CudaContext& ctx) {
  const graph::Shape& dx = ctx.out_shape(0);
  const int64_t pixels = dx.dim(1) * dx.dim(2), channels = dx.dim(3), per_pixel = channels / N;
  ForImages(dx.dim(0), pixels * per_pixel, [&](int64_t first, int64_t images) {
    const auto packs = static_cast<uint32_t>(images * pixels * per_pixel);
    SpreadKernel<N><<<(packs + kPoolThreads - 1) / kPoolThreads, kPoolThreads, 0, ctx.stream>>>(
        packs, static_cast<uint32_t>(pixels * per_pixel), static_cast<uint32_t>(per_pixel),
        static_cast<float>(pixels), ctx.in<S>(0) + first * channels,
        ctx.out<S>(0) + first * pixels * channels);
    gpu::CheckLaunch("global_avg_pool_backward");
  });
}

void GlobalAvgPoolBackward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    constexpr int N = kPackSize<S>;
    const bool aligned = ctx.out_shape(0).dim(3) % N == 0 && Aligned(ctx.in<S>(0), ctx.out<S>(0));
    aligned ? LaunchSpread<N, S>(ctx) : LaunchSpread<1, S>(ctx);
  });
}

const CudaKernelRegistration kGlobalAvgPool({"global_avg_pool", &GlobalAvgPool});
const CudaKernelRegistration kGlobalAvgPoolBackward({"global_avg_pool_backward",
                                                     &GlobalAvgPoolBackward});

}  // namespace
}  // namespace plimsoll::ops
