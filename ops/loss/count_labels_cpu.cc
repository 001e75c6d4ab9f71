// Runs on one thread, because a logit takes one comparison. Bytes: every argument once.
#include <algorithm>
#include <cmath>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void Run(const CpuContext& ctx) {
  const int64_t rows = ctx.in_shape(0).rows(), classes = ctx.in_shape(0).dim(-1);
  const float* const targets = ctx.in<float>(1);
  int32_t* const counts = ctx.out<int32_t>(2);
  if (counts != nullptr) std::fill_n(counts, classes * 4, 0);
  int32_t right = 0, counted = 0;
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename Stored>() {
    const Stored* const logits = ctx.in<Stored>(0);
    for (int64_t row = 0; row < rows; ++row) {
      bool has_target = false, all_right = true;
      for (int64_t c = 0; c < classes; ++c) {
        const float target = targets[row * classes + c];
        if (std::isnan(target)) continue;
        const bool has = target > 0.5f;
        const bool said = Load<Compute<Stored>>(logits + row * classes + c, 1)[0] > 0;
        has_target = true;
        all_right &= said == has;
        if (counts != nullptr) ++counts[4 * c + (said ? (has ? 0 : 1) : (has ? 2 : 3))];
      }
      counted += has_target;
      right += has_target && all_right;
    }
  });
  *ctx.out<int32_t>(0) = right;
  *ctx.out<int32_t>(1) = counted;
}

const CpuKernelRegistration kCountLabels({"count_labels", &Run});

}  // namespace
}  // namespace plimsoll::ops
