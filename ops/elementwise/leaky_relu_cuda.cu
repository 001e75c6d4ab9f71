// Formulas in ops/elementwise/leaky_relu_cpu.cc. A thread takes a few packs of 16 bytes
// (ops/cuda/elementwise.cuh). Bytes: forward 2·n·s, backward 3·n·s.
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

struct Value {
  float slope;
  __device__ float operator()(float x) const { return x > 0 ? x : slope * x; }
};

struct Gradient {
  float slope;
  __device__ float operator()(float y, float dy) const { return y > 0 ? dy : slope * dy; }
};

float SlopeOf(const CudaContext& ctx) {
  return static_cast<float>(ctx.attributes.GetReal("slope"));
}

void LeakyRelu(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "leaky_relu", ctx.in_shape(0).elements(), Value{SlopeOf(ctx)}, ctx.out<S>(0),
        ctx.in<S>(0));
  });
}

void LeakyReluBackward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "leaky_relu_backward", ctx.in_shape(0).elements(), Gradient{SlopeOf(ctx)},
        ctx.out<S>(0), ctx.in<S>(0), ctx.in<S>(1));
  });
}

const CudaKernelRegistration kLeakyRelu({"leaky_relu", &LeakyRelu});
const CudaKernelRegistration kLeakyReluBackward({"leaky_relu_backward", &LeakyReluBackward});

}  // namespace
}  // namespace plimsoll::ops
