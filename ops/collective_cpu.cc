// all_reduce_start returns when the sum is there: between processors nothing is hidden.
#include <cstring>

#include "ops/collective.h"
#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

void Start(const CpuContext& ctx) {
  const TensorRef &x = ctx.inputs[0], &y = ctx.outputs[0];
  Communicator* const ranks = ctx.communicators.Of(AxisOf(ctx.attributes));
  if (ranks != nullptr) {
    ranks->AllReduce(x.data, y.data, x.type.shape.elements(), x.type.dtype, Reduction::kSum,
                     nullptr);
  } else if (x.data != y.data) {
    std::memcpy(y.data, x.data, static_cast<size_t>(x.type.bytes()));
  }
}

const CpuKernelRegistration kStart({"all_reduce_start", &Start});

}  // namespace
}  // namespace plimsoll::ops
