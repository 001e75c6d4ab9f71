// Formulas in squared_error.h. Forward: one thread adds in double, in the order of the elements,
// because a batch has only one number per sample. Backward: threads share chunks of elements.
// Bytes: forward n·(s + 4), backward n·(2·s + 4).
#include <bit>
#include <cmath>

#include "ops/kernel.h"
#include "ops/loss/squared_error.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void Loss(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* const predictions = ctx.in<S>(0);
    const float* const targets = ctx.in<float>(2);
    double sums[kMoments] = {};
    for (int64_t i = 0; i < ctx.in_shape(0).elements(); ++i) {
      const double x = Load<T>(predictions + i, 1)[0], t = targets[i];
      if (std::isnan(t)) continue;
      const double terms[kMoments] = {
          1, x, t, x * x, t * t, x * t, (x - t) * (x - t), std::abs(x - t)};
      for (int64_t k = 0; k < kMoments; ++k) sums[k] += terms[k];
    }
    *ctx.out<T>(0) = static_cast<T>(sums[kSquaredError] * *ctx.in<float>(1));
    float* const moments = ctx.out<float>(1);
    if (moments == nullptr) return;
    for (int64_t k = 0; k < kMoments; ++k) {
      const float rounded = static_cast<float>(sums[k]);
      moments[k] = std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) & kUpperBits);
      moments[kMoments + k] = static_cast<float>(sums[k] - moments[k]);
    }
  });
}

void LossBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* const predictions = ctx.in<S>(0);
    const float* const targets = ctx.in<float>(2);
    const T factor = 2 * *ctx.in<float>(1) * *ctx.in<T>(3);
    S* const dpredictions = ctx.out<S>(0);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      const Vec<T> x = Load<T>(predictions + i, count);
      Vec<T> t = {};
      for (int j = 0; j < count; ++j) t[j] = targets[i + j];
      Store<T>(dpredictions + i, t == t ? factor * (x - t) : Vec<T>{}, count);
    });
  });
}

const CpuKernelRegistration kLoss({"squared_error", &Loss});
const CpuKernelRegistration kLossBackward({"squared_error_backward", &LossBackward});

}  // namespace
}  // namespace plimsoll::ops
