// Runs largest_magnitude on a GPU (cuda/find_largest.h).
#include "ops/cuda/find_largest.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

void Run(const CudaContext& ctx) {
  LargestMagnitude(ctx.stream, ctx.dtype(), ctx.in<void>(0), ctx.in_shape(0).elements(),
                   ctx.libraries.multiprocessors(), ctx.out<uint32_t>(0));
}

const CudaKernelRegistration kRegistration({"largest_magnitude", &Run});

}  // namespace
}  // namespace plimsoll::ops
