// y[b,i,j] = x[b,i·stride,j·stride] with zeros behind it; dx the other way round. A thread writes
// one element. Bytes: what is read of x, and all of y; backward what is read of dy, and all of dx.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

struct Images {
  int64_t height, width, channels;
  explicit Images(const graph::Shape& shape)
      : height(shape.dim(1)), width(shape.dim(2)), channels(shape.dim(3)) {}
};

// An element of images, [B,H,W,C].
struct Place {
  int64_t image, i, j, channel;
  __device__ Place(int64_t element, const Images& of)
      : image(element / of.channels / of.width / of.height),
        i(element / of.channels / of.width % of.height),
        j(element / of.channels % of.width),
        channel(element % of.channels) {}
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SubsampleKernel(const T* x, Images from, Images to, int64_t stride, int64_t n, T* y) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= n) return;
  const Place at(element, to);
  const int64_t row = at.image * from.height + at.i * stride;
  const int64_t pixel = row * from.width + at.j * stride;
  y[element] = at.channel < from.channels ? x[pixel * from.channels + at.channel] : FromFloat<T>(0);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SubsampleBackwardKernel(const T* dy, Images from, Images to, int64_t stride, int64_t n, T* dx) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= n) return;
  const Place at(element, to);
  const bool taken = at.i % stride == 0 && at.j % stride == 0;
  const int64_t row = at.image * from.height + at.i / stride;
  const int64_t pixel = row * from.width + at.j / stride;
  dx[element] = taken ? dy[pixel * from.channels + at.channel] : FromFloat<T>(0);
}

unsigned Blocks(int64_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

void Subsample(const CudaContext& ctx) {
  const int64_t n = ctx.out_shape(0).elements();
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    SubsampleKernel<T><<<Blocks(n), kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), Images(ctx.in_shape(0)), Images(ctx.out_shape(0)),
        ctx.attributes.GetInt("stride"), n, ctx.out<T>(0));
  });
  gpu::CheckLaunch("subsample");
}

void SubsampleBackward(const CudaContext& ctx) {
  const int64_t n = ctx.out_shape(0).elements();
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    SubsampleBackwardKernel<T><<<Blocks(n), kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), Images(ctx.in_shape(0)), Images(ctx.out_shape(0)),
        ctx.attributes.GetInt("stride"), n, ctx.out<T>(0));
  });
  gpu::CheckLaunch("subsample_backward");
}

const CudaKernelRegistration kSubsample({"subsample", &Subsample});
const CudaKernelRegistration kSubsampleBackward({"subsample_backward", &SubsampleBackward});

}  // namespace
}  // namespace plimsoll::ops
