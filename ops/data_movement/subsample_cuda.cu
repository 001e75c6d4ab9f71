// y[b,i,j,first+c] = x[b,i·stride,j·stride,c], and 0 in all other channels; dx is the inverse. A
// thread writes 16 bytes of a pixel of y if pixels consist of them, otherwise one element; of dx
// always one element. Bytes: the elements read of x, and all of y; backward the elements read of
// dy, and all of dx.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"
#include "ops/data_movement/subsample.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

struct Images {
  int64_t height, width, channels;
  explicit Images(const graph::Shape& shape)
      : height(shape.dim(1)), width(shape.dim(2)), channels(shape.dim(3)) {}
};

// The position of an element in images [B,H,W,C].
struct Place {
  int64_t image, i, j, channel;
  __device__ Place(int64_t element, const Images& of)
      : image(element / of.channels / of.width / of.height),
        i(element / of.channels / of.width % of.height),
        j(element / of.channels % of.width),
        channel(element % of.channels) {}
};

template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    SubsampleKernel(const T* x, Images from, Images to, int64_t stride, int64_t first_channel,
                    int64_t packs, T* y) {
  const int64_t pack = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pack >= packs) return;
  const Place at(pack * N, to);
  const int64_t row = at.image * from.height + at.i * stride;
  const int64_t pixel = row * from.width + at.j * stride;
  float values[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int64_t channel = at.channel + i - first_channel;
    const bool taken = channel >= 0 && channel < from.channels;
    values[i] = taken ? ToFloat(x[pixel * from.channels + channel]) : 0.0f;
  }
  StoreGlobal(y + pack * N, values);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SubsampleBackwardKernel(const T* dy, Images from, Images to, int64_t stride,
                            int64_t first_channel, int64_t n, T* dx) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= n) return;
  const Place at(element, to);
  const bool taken = at.i % stride == 0 && at.j % stride == 0;
  const int64_t row = at.image * from.height + at.i / stride;
  const int64_t pixel = row * from.width + at.j / stride;
  const int64_t channel = first_channel + at.channel;
  dx[element] = taken ? dy[pixel * from.channels + channel] : FromFloat<T>(0);
}

unsigned Blocks(int64_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

void Subsample(const CudaContext& ctx) {
  const int64_t n = ctx.out_shape(0).elements();
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const auto launch = [&]<int N>() {
      SubsampleKernel<N, T><<<Blocks(n / N), kThreads, 0, ctx.stream>>>(
          ctx.in<T>(0), Images(ctx.in_shape(0)), Images(ctx.out_shape(0)),
          ctx.attributes.GetInt("stride"), FirstChannel(ctx.attributes), n / N, ctx.out<T>(0));
    };
    constexpr int kPack = kPackSize<T>;
    if (ctx.out_shape(0).dim(-1) % kPack == 0 && Aligned(ctx.out<T>(0))) {
      launch.template operator()<kPack>();
    } else {
      launch.template operator()<1>();
    }
  });
  gpu::CheckLaunch("subsample");
}

void SubsampleBackward(const CudaContext& ctx) {
  const int64_t n = ctx.out_shape(0).elements();
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    SubsampleBackwardKernel<T><<<Blocks(n), kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), Images(ctx.in_shape(0)), Images(ctx.out_shape(0)),
        ctx.attributes.GetInt("stride"), FirstChannel(ctx.attributes), n, ctx.out<T>(0));
  });
  gpu::CheckLaunch("subsample_backward");
}

const CudaKernelRegistration kSubsample({"subsample", &Subsample});
const CudaKernelRegistration kSubsampleBackward({"subsample_backward", &SubsampleBackward});

}  // namespace
}  // namespace plimsoll::ops
