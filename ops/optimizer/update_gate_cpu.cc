// Computes the rule in ops/optimizer/update_gate.h: a few scalars, on the calling thread.
#include <cmath>

#include "ops/kernel.h"
#include "ops/optimizer/update_gate.h"

namespace plimsoll::ops {
namespace {

void UpdateGate(const CpuContext& ctx) {
  // Reads all inputs first, because outputs may share their memory.
  const float norm = *ctx.in<float>(0), loss = *ctx.in<float>(1), limit = *ctx.in<float>(2);
  const int32_t skipped = ctx.in<int32_t>(3)[0], in_a_row = ctx.in<int32_t>(3)[1];

  const bool apply = std::isfinite(norm) && norm <= LargestNorm(ctx.attributes) &&
                     std::isfinite(loss) && loss <= limit;
  *ctx.out<int32_t>(0) = apply ? 1 : 0;
  ctx.out<int32_t>(1)[0] = apply ? skipped : skipped + 1;
  ctx.out<int32_t>(1)[1] = apply ? 0 : in_a_row + 1;
}

const CpuKernelRegistration kUpdateGate({"update_gate", &UpdateGate});

}  // namespace
}  // namespace plimsoll::ops
