// Computes ops/linear/largest_history.h column by column. Bytes: history twice.
#include <algorithm>
#include <bit>

#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

void CommitLargest(const CpuContext& ctx) {
  const int64_t rows = ctx.in_shape(2).dim(0), columns = ctx.in_shape(2).dim(1);
  const bool apply = !ctx.has_input(4) || *ctx.in<int32_t>(4) != 0;
  const auto margin = static_cast<float>(ctx.attributes.GetReal("margin"));
  const float *expected = ctx.in<float>(0), *pending = ctx.in<float>(1);
  const float* const history = ctx.in<float>(2);
  const int64_t current = *ctx.in<int32_t>(3) % rows;
  float *next = ctx.out<float>(0), *kept = ctx.out<float>(1);
  for (int64_t i = 0; i < columns; ++i) {
    uint32_t largest = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * columns + i;
      kept[at] = apply && r == current ? pending[i] : history[at];
      largest = std::max(largest, std::bit_cast<uint32_t>(kept[at]));
    }
    next[i] = apply ? std::bit_cast<float>(largest) * margin : expected[i];
  }
}

const CpuKernelRegistration kCommitLargest({"commit_largest", &CommitLargest});

}  // namespace
}  // namespace plimsoll::ops
