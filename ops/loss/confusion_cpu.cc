// Runs on one thread, because a row takes only a few comparisons. Bytes: every argument once.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

template <typename Stored>
int64_t Largest(const Stored* row, int64_t classes) {
  using T = Compute<Stored>;
  int64_t largest = 0;
  for (int64_t c = 1; c < classes; ++c) {
    if (Load<T>(row + c, 1)[0] > Load<T>(row + largest, 1)[0]) largest = c;
  }
  return largest;
}

void Run(const CpuContext& ctx) {
  const int64_t classes = ctx.in_shape(0).dim(-1), rows = ctx.in_shape(1).elements();
  const int32_t* labels = ctx.in<int32_t>(1);
  int32_t *counts = ctx.out<int32_t>(0), *right = ctx.out<int32_t>(1), *all = ctx.out<int32_t>(2);
  std::fill_n(counts, classes * classes, 0);
  *right = *all = 0;
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename Stored>() {
    const Stored* logits = ctx.in<Stored>(0);
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t label = labels[row];
      if (label < 0) continue;
      if (label >= classes) {
        throw InternalError("confusion: label " + std::to_string(label) + " of " +
                            std::to_string(classes) + " classes");
      }
      const int64_t said = Largest(logits + row * classes, classes);
      ++counts[label * classes + said];
      *right += said == label;
      ++*all;
    }
  });
}

const CpuKernelRegistration kConfusion({"confusion", &Run});

}  // namespace
}  // namespace plimsoll::ops
