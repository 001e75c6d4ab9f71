// ops/optimizer/model_state.h, element by element: moving_average one thread for a few packs of 16
// bytes (ops/cuda/elementwise.cuh), commit_state one for an element. Bytes: every argument once.
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

struct Average {
  float momentum, factor;
  __device__ float operator()(float state, float value) const {
    return state + (__fmul_rn(value, factor) - state) * momentum;
  }
};

void MovingAverage(const CudaContext& ctx) {
  const Average average{static_cast<float>(ctx.attributes.GetReal("momentum")),
                        static_cast<float>(ctx.attributes.GetReal("factor"))};
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "moving_average", ctx.in_shape(0).elements(), average, ctx.out<S>(0),
        ctx.in<S>(0), ctx.in<S>(1));
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
  constexpr int kThreads = 256;
  CommitStateKernel<<<static_cast<unsigned>((n + kThreads - 1) / kThreads), kThreads, 0,
                      ctx.stream>>>(n, ctx.in<float>(0), ctx.in<float>(1),
                                    static_cast<float>(ctx.attributes.GetInt("parts")),
                                    ctx.in<int32_t>(2), ctx.out<float>(0));
  gpu::CheckLaunch("commit_state");
}

const CudaKernelRegistration kMovingAverage({"moving_average", &MovingAverage});
const CudaKernelRegistration kCommitState({"commit_state", &CommitState});

}  // namespace
}  // namespace plimsoll::ops
