// all_reduce_start: enqueued by NCCL on the stream that the kernel is given, in the order of all
// other work there; nothing on a rank that is alone.
#include "gpu/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

void Start(const CudaContext& ctx) {
  const TensorRef &x = ctx.inputs[0], &y = ctx.outputs[0];
  Communicator* const ranks = ctx.communicators.Of(AxisOf(ctx.attributes));
  if (ranks != nullptr) {
    ranks->AllReduce(x.data, y.data, x.type.shape.elements(), x.type.dtype, Reduction::kSum,
                     ctx.stream);
  } else if (x.data != y.data) {
    gpu::Check(cudaMemcpyAsync(y.data, x.data, static_cast<size_t>(x.type.bytes()),
                               cudaMemcpyDeviceToDevice, ctx.stream),
               "cudaMemcpyAsync");
  }
}

const CudaKernelRegistration kStart({"all_reduce_start", &Start});

}  // namespace
}  // namespace plimsoll::ops
