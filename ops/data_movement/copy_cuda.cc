// copy_start: a copy between GPU memory and pinned host memory, by the GPU's copy engine, in the
// order of the kernel's stream. To overlap the copy with computation, an executor passes another
// stream, and waits for it at copy_done. Bytes: n·s read, n·s written.
#include "gpu/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

void Start(const CudaContext& ctx) {
  gpu::Check(cudaMemcpyAsync(ctx.out<void>(0), ctx.in<void>(0), ctx.inputs[0].type.bytes(),
                             cudaMemcpyDefault, ctx.stream),
             "cudaMemcpyAsync");
}

const CudaKernelRegistration kStart({"copy_start", &Start});

}  // namespace
}  // namespace plimsoll::ops
