// Computes the rule in ops/optimizer/update_gate.h in one thread.
#include "gpu/check.h"
#include "ops/cuda_kernel.h"
#include "ops/optimizer/update_gate.h"

namespace plimsoll::ops {
namespace {

// Reads all inputs first, because outputs may share their memory.
__global__ void UpdateGateKernel(const float* norm_in, const float* loss_in, const float* limit_in,
                                 const int32_t* skipped_in, float largest_norm, int32_t* apply_out,
                                 int32_t* skipped_out) {
  const float norm = *norm_in, loss = *loss_in, limit = *limit_in;
  const int32_t skipped = skipped_in[0], in_a_row = skipped_in[1];

  const bool apply = isfinite(norm) && norm <= largest_norm && isfinite(loss) && loss <= limit;
  *apply_out = apply ? 1 : 0;
  skipped_out[0] = apply ? skipped : skipped + 1;
  skipped_out[1] = apply ? 0 : in_a_row + 1;
}

void UpdateGate(const CudaContext& ctx) {
  UpdateGateKernel<<<1, 1, 0, ctx.stream>>>(ctx.in<float>(0), ctx.in<float>(1), ctx.in<float>(2),
                                            ctx.in<int32_t>(3), LargestNorm(ctx.attributes),
                                            ctx.out<int32_t>(0), ctx.out<int32_t>(1));
  gpu::CheckLaunch("update_gate");
}

const CudaKernelRegistration kUpdateGate({"update_gate", &UpdateGate});

}  // namespace
}  // namespace plimsoll::ops
