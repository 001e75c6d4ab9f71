// ops/optimizer/model_state.h, element by element: one thread for an element. Bytes: every argument
// once.
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

unsigned Blocks(int64_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

// One thread for an element; `state` and `next` may be the same memory.
template <typename S>
__global__ void MovingAverageKernel(int64_t n, const S* state, const S* value, int64_t values,
                                    float momentum, S* next) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = ToFloat(value[i]);
  for (int64_t v = 1; v < values; ++v) sum += ToFloat(value[v * n + i]);
  const float now = ToFloat(state[i]);
  next[i] = FromFloat<S>(now + (sum / static_cast<float>(values) - now) * momentum);
}

void MovingAverage(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements();
  if (n == 0) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    MovingAverageKernel<<<Blocks(n), kThreads, 0, ctx.stream>>>(
        n, ctx.in<S>(0), ctx.in<S>(1), ctx.in_shape(1).elements() / n,
        static_cast<float>(ctx.attributes.GetReal("momentum")), ctx.out<S>(0));
  });
  gpu::CheckLaunch("moving_average");
}

struct Sum {
  __device__ float operator()(float state, float value) const { return state + value; }
};

void AddToState(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "add_to_state", ctx.in_shape(0).elements(), Sum(), ctx.out<S>(0), ctx.in<S>(0),
        ctx.in<S>(1));
  });
}

// `state` and `out` may be the same memory.
__global__ void CommitStateKernel(int64_t n, const float* state, const float* pending, float parts,
                                  const int32_t* apply, float* out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) out[i] = apply == nullptr || *apply != 0 ? pending[i] / parts : state[i];
}

void CommitState(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements();
  if (n == 0) return;
  CommitStateKernel<<<Blocks(n), kThreads, 0, ctx.stream>>>(
      n, ctx.in<float>(0), ctx.in<float>(1), static_cast<float>(ctx.attributes.GetInt("parts")),
      ctx.in<int32_t>(2), ctx.out<float>(0));
  gpu::CheckLaunch("commit_state");
}

const CudaKernelRegistration kMovingAverage({"moving_average", &MovingAverage});
const CudaKernelRegistration kAddToState({"add_to_state", &AddToState});
const CudaKernelRegistration kCommitState({"commit_state", &CommitState});

}  // namespace
}  // namespace plimsoll::ops
