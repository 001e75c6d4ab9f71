// counts = acc + weight · numbers of elements, by |x| / scale (ops/linear/count_codes.h).
//
// Threads share the elements; counts are integers, so that their order does not matter. Bytes: x
// once.
#include <array>
#include <atomic>
#include <cmath>

#include "ops/kernel.h"
#include "ops/linear/count_codes.h"
#include "ops/reductions/cpu_largest.h"

namespace plimsoll::ops {
namespace {

void Run(const CpuContext& ctx) {
  const CodeRange range = RangeOf(*graph::ParseDType(ctx.attributes.GetWord("dtype")));
  const float to_code = 1 / *ctx.in<float>(1);
  std::array<std::atomic<int64_t>, 3> counts = {};
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const S* const x = ctx.in<S>(0);
    ctx.pool.ParallelFor(
        ctx.in_shape(0).elements(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
          std::array<int64_t, 3> here = {};
          for (int64_t i = begin; i < end; ++i) {
            const float magnitude = std::fabs(AsFloat(x[i])), code = magnitude * to_code;
            const bool finite = std::isfinite(magnitude);
            here[0] += finite && code >= range.saturated;
            here[1] += magnitude > 0 && code <= range.zeroed;
            here[2] += !finite;
          }
          for (size_t k = 0; k < counts.size(); ++k) counts[k] += here[k];
        });
  });
  const auto weight = static_cast<float>(ctx.attributes.GetReal("weight"));
  for (size_t k = 0; k < counts.size(); ++k) {
    const float before = ctx.has_input(2) ? ctx.in<float>(2)[k] : 0;
    ctx.out<float>(0)[k] = before + weight * static_cast<float>(counts[k]);
  }
}

const CpuKernelRegistration kCountCodes({"count_codes", &Run});

}  // namespace
}  // namespace plimsoll::ops
