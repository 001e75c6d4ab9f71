// ops/cuda/linear_loss.cuh says how a chunk of rows is computed, and which bytes it moves. At the
// end one block computes loss = scale · Σ losses, in double. The forward and the backward op have
// the bits of the training op.
#include "gpu/check.h"
#include "ops/cuda/linear_loss.cuh"
#include "ops/cuda_kernel.h"
#include "ops/loss/linear_cross_entropy.h"

namespace plimsoll::ops {
namespace {

using linear_loss_cuda::Arguments;
using linear_loss_cuda::ComputeChunks;
using linear_loss_cuda::PrepareChunks;

constexpr int kTotalThreads = 1024;

__global__ __launch_bounds__(kTotalThreads) void TotalLossKernel(const float* losses, int64_t rows,
                                                                 const float* scale, float* loss) {
  __shared__ double partial[kTotalThreads];
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t r = thread; r < rows; r += kTotalThreads) sum += losses[r];
  partial[thread] = sum;
  for (int half = kTotalThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) partial[thread] += partial[thread + half];
  }
  if (thread == 0) *loss = static_cast<float>(partial[0] * static_cast<double>(*scale));
}

constexpr Arguments kForwardArguments = {.scale = 3, .bias = 4, .loss = 0, .lse = 1};
constexpr Arguments kBackwardArguments = {.scale = 3,
                                          .lse_in = 4,
                                          .dloss = 5,
                                          .acc = 6,
                                          .bias = 7,
                                          .acc_bias = 8,
                                          .rng = 9,
                                          .dx = 0,
                                          .dweight = 1,
                                          .dbias = 2};
constexpr Arguments kTrainArguments = {.scale = 3,
                                       .dloss = 4,
                                       .acc = 5,
                                       .bias = 6,
                                       .acc_bias = 7,
                                       .rng = 8,
                                       .loss = 0,
                                       .dx = 1,
                                       .dweight = 2,
                                       .dbias = 3};

void Run(const CudaContext& ctx, const Arguments& at) {
  const linear_loss_cuda::Loss<false> loss{ctx, at};
  ComputeChunks(loss);
  if (!ctx.has_output(at.loss)) return;
  TotalLossKernel<<<1, kTotalThreads, 0, ctx.stream>>>(
      loss.losses, loss.rows, ctx.in<float>(at.scale), ctx.out<float>(at.loss));
  gpu::CheckLaunch("total loss");
}

void Forward(const CudaContext& ctx) { Run(ctx, kForwardArguments); }
void Backward(const CudaContext& ctx) { Run(ctx, kBackwardArguments); }
void Train(const CudaContext& ctx) { Run(ctx, kTrainArguments); }
void PrepareForward(const CudaContext& ctx) { PrepareChunks<false>(ctx, kForwardArguments); }
void PrepareBackward(const CudaContext& ctx) { PrepareChunks<false>(ctx, kBackwardArguments); }
void PrepareTrain(const CudaContext& ctx) { PrepareChunks<false>(ctx, kTrainArguments); }

const CudaKernelRegistration kForward({"linear_cross_entropy", &Forward, &PrepareForward});
const CudaKernelRegistration kBackward({"linear_cross_entropy_backward", &Backward,
                                        &PrepareBackward});
const CudaKernelRegistration kTrain({"linear_cross_entropy_train", &Train, &PrepareTrain});

}  // namespace
}  // namespace plimsoll::ops
