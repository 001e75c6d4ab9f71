// Formulas in ops/elementwise/relu_cpu.cc. A thread takes a few packs of 16 bytes
// (ops/cuda/elementwise.cuh). Bytes: forward 2·n·s, backward 3·n·s.
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

struct Value {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x; }
};

struct Gradient {
  __device__ float operator()(float y, float dy) const { return y <= 0 ? 0.0f : dy; }
};

void Relu(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "relu", ctx.in_shape(0).elements(), Value(), ctx.out<S>(0), ctx.in<S>(0));
  });
}

void ReluBackward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "relu_backward", ctx.in_shape(0).elements(), Gradient(), ctx.out<S>(0),
        ctx.in<S>(0), ctx.in<S>(1));
  });
}

const CudaKernelRegistration kRelu({"relu", &Relu});
const CudaKernelRegistration kReluBackward({"relu_backward", &ReluBackward});

}  // namespace
}  // namespace plimsoll::ops
