// largest = max |x|, by its bits (ops/reductions/largest_magnitude.h).
//
// Threads share the elements. Bytes: x once.
#include <bit>

#include "ops/kernel.h"
#include "ops/reductions/cpu_largest.h"

namespace plimsoll::ops {
namespace {

void Run(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const int64_t n = ctx.in_shape(0).elements();
    *ctx.out<float>(0) = std::bit_cast<float>(LargestMagnitude(ctx.pool, ctx.in<S>(0), n));
  });
}

const CpuKernelRegistration kLargestMagnitude({"largest_magnitude", &Run});

}  // namespace
}  // namespace plimsoll::ops
