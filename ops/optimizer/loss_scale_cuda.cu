// Computes the rule in ops/optimizer/loss_scale.h in one thread, like
// ops/optimizer/loss_scale_cpu.cc: products are rounded to float32 once, from double.
#include "gpu/check.h"
#include "ops/cuda_kernel.h"
#include "ops/optimizer/loss_scale.h"

namespace plimsoll::ops {
namespace {

struct Rule {
  bool dynamic;
  double growth, backoff, min_scale;
  int64_t growth_interval;
  float largest_norm;
};

// Reads all inputs first, because outputs may share their memory.
__global__ void LossScaleStepKernel(const Rule rule, const float* norm_in, const float* scale_in,
                                    const int32_t* tracker_in, const int32_t* skipped_in,
                                    const float* loss_in, const float* limit_in, float* grad_norm,
                                    float* inverse, int32_t* apply, float* scale_out,
                                    int32_t* tracker_out, int32_t* skipped_out) {
  const float norm = *norm_in;
  float scale = *scale_in;
  int32_t tracker = *tracker_in;
  int32_t skipped = skipped_in[0];
  int32_t in_a_row = skipped_in[1];

  const bool good = isfinite(norm);
  const bool limited = loss_in != nullptr;
  const float loss = limited ? *loss_in : 0, limit = limited ? *limit_in : 0;
  const float unscaled = norm / scale;
  const bool applied = good && unscaled <= rule.largest_norm && isfinite(loss) && loss <= limit;
  *grad_norm = unscaled;
  *inverse = static_cast<float>(1 / static_cast<double>(scale));
  *apply = applied ? 1 : 0;

  skipped += applied ? 0 : 1;
  in_a_row = applied ? 0 : in_a_row + 1;
  if (rule.dynamic) {
    if (!good) {
      const float smaller = static_cast<float>(scale * rule.backoff);
      scale = fmaxf(smaller, static_cast<float>(rule.min_scale));
      tracker = 0;
    } else if (++tracker >= rule.growth_interval) {
      const float larger = static_cast<float>(scale * rule.growth);
      if (isfinite(larger)) scale = larger;
      tracker = 0;
    }
  }
  *scale_out = scale;
  *tracker_out = tracker;
  skipped_out[0] = skipped;
  skipped_out[1] = in_a_row;
}

void LossScaleStep(const CudaContext& ctx) {
  const Rule rule{.dynamic = ctx.attributes.GetBool("dynamic"),
                  .growth = ctx.attributes.GetReal("growth_factor"),
                  .backoff = ctx.attributes.GetReal("backoff_factor"),
                  .min_scale = ctx.attributes.GetReal("min_scale"),
                  .growth_interval = ctx.attributes.GetInt("growth_interval"),
                  .largest_norm = LargestNorm(ctx.attributes)};
  LossScaleStepKernel<<<1, 1, 0, ctx.stream>>>(
      rule, ctx.in<float>(0), ctx.in<float>(1), ctx.in<int32_t>(2), ctx.in<int32_t>(3),
      ctx.in<float>(4), ctx.in<float>(5), ctx.out<float>(0), ctx.out<float>(1), ctx.out<int32_t>(2),
      ctx.out<float>(3), ctx.out<int32_t>(4), ctx.out<int32_t>(5));
  gpu::CheckLaunch("loss_scale_step");
}

const CudaKernelRegistration kLossScaleStep({"loss_scale_step", &LossScaleStep});

}  // namespace
}  // namespace plimsoll::ops
