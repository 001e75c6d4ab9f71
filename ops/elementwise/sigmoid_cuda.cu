// Formulas in ops/elementwise/sigmoid_cpu.cc. A thread takes a few packs of 16 bytes
// (ops/cuda/elementwise.cuh). Bytes: forward 2·n·s, backward 3·n·s.
//
// Products and sums of the gradients are intrinsics, so that no compiler fuses them differently.
#include "ops/cuda/activations.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

struct SigmoidValue {
  __device__ float operator()(float x) const { return SigmoidOfLog2(__fmul_rn(x, kLog2E)); }
};

struct SigmoidSlope {
  __device__ float operator()(float y, float dy) const {
    return __fmul_rn(dy, __fmul_rn(y, __fsub_rn(1.0f, y)));
  }
};

// The library's function keeps the digits of a small x, which 2·σ(2x) − 1 would lose.
struct TanhValue {
  __device__ float operator()(float x) const { return tanhf(x); }
};

struct TanhSlope {
  __device__ float operator()(float y, float dy) const {
    return __fmul_rn(dy, __fmaf_rn(-y, y, 1.0f));
  }
};

template <typename Function>
void Forward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, ctx.op.name.c_str(), ctx.in_shape(0).elements(), Function(), ctx.out<S>(0),
        ctx.in<S>(0));
  });
}

template <typename Function>
void Backward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, ctx.op.name.c_str(), ctx.in_shape(0).elements(), Function(), ctx.out<S>(0),
        ctx.in<S>(0), ctx.in<S>(1));
  });
}

const CudaKernelRegistration kSigmoid({"sigmoid", &Forward<SigmoidValue>});
const CudaKernelRegistration kSigmoidBackward({"sigmoid_backward", &Backward<SigmoidSlope>});
const CudaKernelRegistration kTanh({"tanh", &Forward<TanhValue>});
const CudaKernelRegistration kTanhBackward({"tanh_backward", &Backward<TanhSlope>});

}  // namespace
}  // namespace plimsoll::ops
