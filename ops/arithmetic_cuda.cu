// add: y = a + b. One thread for 16 bytes; grid-stride. Bytes: 3·n·s.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

template <typename T>
__global__ void AddKernel(const T* a, const T* b, T* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = FromFloat<T>(ToFloat(a[i]) + ToFloat(b[i]));
}

void Add(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const int64_t n = ctx.in_shape(0).elements();
    constexpr int kThreads = 256;
    AddKernel<T><<<static_cast<unsigned>((n + kThreads - 1) / kThreads), kThreads, 0, ctx.stream>>>(
        ctx.in<T>(0), ctx.in<T>(1), ctx.out<T>(0), n);
    gpu::CheckLaunch("add");
  });
}

const CudaKernelRegistration kAdd({"add", &Add});

}  // namespace
}  // namespace plimsoll::ops
