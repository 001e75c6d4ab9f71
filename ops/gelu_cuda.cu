// Formulas in ops/gelu_cpu.cc; a thread takes a few packs of 16 bytes (ops/cuda/elementwise.cuh).
// Bytes: gelu 2·n·s, gelu_backward 3·n·s.
#include "ops/cuda/activations.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

template <typename Function>
struct Value {
  __device__ float operator()(float x) const { return Function()(x).value; }
};

template <typename Function>
struct Gradient {
  __device__ float operator()(float x, float dy) const {
    return __fmul_rn(dy, Function()(x).slope);
  }
};

// Calls body.template operator()<S, TanhGelu or ExactGelu>().
template <typename Body>
void Dispatch(const CudaContext& ctx, Body&& body) {
  const bool tanh = ctx.attributes.GetWord("approximate") == "tanh";
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    if (tanh) {
      body.template operator()<S, TanhGelu>();
    } else {
      body.template operator()<S, ExactGelu>();
    }
  });
}

void Gelu(const CudaContext& ctx) {
  Dispatch(ctx, [&]<typename S, typename Function>() {
    Map(ctx.stream, "gelu", ctx.in_shape(0).elements(), Value<Function>(), ctx.out<S>(0),
        ctx.in<S>(0));
  });
}

void GeluBackward(const CudaContext& ctx) {
  Dispatch(ctx, [&]<typename S, typename Function>() {
    Map(ctx.stream, "gelu_backward", ctx.in_shape(0).elements(), Gradient<Function>(),
        ctx.out<S>(0), ctx.in<S>(0), ctx.in<S>(1));
  });
}

const CudaKernelRegistration kGelu({"gelu", &Gelu});
const CudaKernelRegistration kGeluBackward({"gelu_backward", &GeluBackward});

}  // namespace
}  // namespace plimsoll::ops
