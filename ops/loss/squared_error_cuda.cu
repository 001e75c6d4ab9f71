// Formulas in squared_error.h. Forward: one block, because a batch has only one number per sample.
// A thread adds every 256th number in double; then the threads' sums are added in a fixed order.
// Backward: elementwise (ops/cuda/elementwise.cuh). Bytes: forward n·(s + 4), backward n·(2·s + 4).
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/loss/squared_error.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

__device__ double WarpSum(double x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// Runs as one block. `moments` may be nullptr.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    LossKernel(int64_t elements, const S* predictions, const float* weight, const float* targets,
               float* loss, float* moments) {
  __shared__ double of_warps[kThreads / kWarp][kMoments];
  double sums[kMoments] = {};
  for (int64_t i = threadIdx.x; i < elements; i += kThreads) {
    const double x = ToFloat(predictions[i]), t = targets[i];
    if (isnan(t)) continue;
    const double terms[kMoments] = {1, x, t, x * x, t * t, x * t, (x - t) * (x - t), fabs(x - t)};
#pragma unroll
    for (int k = 0; k < kMoments; ++k) sums[k] += terms[k];
  }
#pragma unroll
  for (int k = 0; k < kMoments; ++k) {
    const double of_warp = WarpSum(sums[k]);
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp][k] = of_warp;
  }
  __syncthreads();
  if (threadIdx.x >= kMoments) return;
  const int k = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int warp = 0; warp < kThreads / kWarp; ++warp) sum += of_warps[warp][k];
  if (k == kSquaredError) *loss = static_cast<float>(sum * *weight);
  if (moments == nullptr) return;
  const float upper = __uint_as_float(__float_as_uint(static_cast<float>(sum)) & kUpperBits);
  moments[k] = upper;
  moments[kMoments + k] = static_cast<float>(sum - upper);
}

void Loss(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    LossKernel<<<1, kThreads, 0, ctx.stream>>>(ctx.in_shape(0).elements(), ctx.in<S>(0),
                                               ctx.in<float>(1), ctx.in<float>(2),
                                               ctx.out<float>(0), ctx.out<float>(1));
  });
  gpu::CheckLaunch("squared_error");
}

struct Slope {
  const float *weight, *dloss;

  __device__ float operator()(float x, float t) const {
    return isnan(t) ? 0.0f : 2 * *weight * *dloss * (x - t);
  }
};

void LossBackward(const CudaContext& ctx) {
  const Slope slope{ctx.in<float>(1), ctx.in<float>(3)};
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "squared_error_backward", ctx.in_shape(0).elements(), slope, ctx.out<S>(0),
        ctx.in<S>(0), ctx.in<float>(2));
  });
}

const CudaKernelRegistration kLoss({"squared_error", &Loss});
const CudaKernelRegistration kLossBackward({"squared_error_backward", &LossBackward});

}  // namespace
}  // namespace plimsoll::ops
