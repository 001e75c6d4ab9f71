// Computes the rule in ops/optimizer/loss_scale.h: a few scalars, on the calling thread. Products
// are rounded to float32 once, from double, as in GradScaler's own kernel.
#include <algorithm>
#include <cmath>

#include "ops/kernel.h"
#include "ops/optimizer/loss_scale.h"

namespace plimsoll::ops {
namespace {

void LossScaleStep(const CpuContext& ctx) {
  // Reads all inputs first, because outputs may share their memory.
  const float norm = *ctx.in<float>(0);
  float scale = *ctx.in<float>(1);
  int32_t tracker = *ctx.in<int32_t>(2);
  int32_t skipped = ctx.in<int32_t>(3)[0];
  int32_t in_a_row = ctx.in<int32_t>(3)[1];

  const bool good = std::isfinite(norm);
  const bool limited = ctx.has_input(4);
  const float loss = limited ? *ctx.in<float>(4) : 0, limit = limited ? *ctx.in<float>(5) : 0;
  const float grad_norm = norm / scale;
  const bool apply =
      good && grad_norm <= LargestNorm(ctx.attributes) && std::isfinite(loss) && loss <= limit;
  *ctx.out<float>(0) = grad_norm;
  *ctx.out<float>(1) = static_cast<float>(1 / static_cast<double>(scale));
  *ctx.out<int32_t>(2) = apply ? 1 : 0;

  skipped += apply ? 0 : 1;
  in_a_row = apply ? 0 : in_a_row + 1;
  if (ctx.attributes.GetBool("dynamic")) {
    if (!good) {
      const float smaller = static_cast<float>(scale * ctx.attributes.GetReal("backoff_factor"));
      scale = std::max(smaller, static_cast<float>(ctx.attributes.GetReal("min_scale")));
      tracker = 0;
    } else if (++tracker >= ctx.attributes.GetInt("growth_interval")) {
      const float larger = static_cast<float>(scale * ctx.attributes.GetReal("growth_factor"));
      if (std::isfinite(larger)) scale = larger;
      tracker = 0;
    }
  }
  *ctx.out<float>(3) = scale;
  *ctx.out<int32_t>(4) = tracker;
  ctx.out<int32_t>(5)[0] = skipped;
  ctx.out<int32_t>(5)[1] = in_a_row;
}

const CpuKernelRegistration kLossScaleStep({"loss_scale_step", &LossScaleStep});

}  // namespace
}  // namespace plimsoll::ops
