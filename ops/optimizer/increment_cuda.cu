// increment: adds 1 to the count unless `apply` is 0, in one thread.
#include "gpu/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

__global__ void IncrementKernel(const int32_t* count, const int32_t* apply, int32_t* out) {
  *out = *count + (apply != nullptr && *apply == 0 ? 0 : 1);
}

void Increment(const CudaContext& ctx) {
  IncrementKernel<<<1, 1, 0, ctx.stream>>>(ctx.in<int32_t>(0), ctx.in<int32_t>(1),
                                           ctx.out<int32_t>(0));
  gpu::CheckLaunch("increment");
}

const CudaKernelRegistration kIncrement({"increment", &Increment});

}  // namespace
}  // namespace plimsoll::ops
