// y[b,…] = word[b] < p · 2³² ? 0 : x[b,…] / (1 − p). Threads share chunks of elements, which may
// begin within a sample. Bytes: 2·n·s; dropped samples are not read.
#include <algorithm>

#include "base/philox.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void DropPath(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const double p = ctx.attributes.GetReal("p");
    const uint32_t threshold = DropThreshold(p);
    const T scale = static_cast<T>(1 / (1 - p));
    const PhiloxStream stream(ctx.in<int32_t>(1), ctx.attributes.GetInt("key"));
    const S* const x = ctx.in<S>(0);
    S* const y = ctx.out<S>(0);
    const int64_t n = ctx.in_shape(0).elements();
    if (n == 0) return;
    const int64_t sample = n / ctx.in_shape(0).dim(0);
    ctx.pool.ParallelFor(n, kElementwiseGrain, [=](int64_t begin, int64_t end) {
      for (int64_t b = begin / sample; b * sample < end; ++b) {
        uint32_t word = 0;
        stream.Words(static_cast<uint64_t>(b), 1, &word);
        const bool dropped = word < threshold;
        ForVectors<T>(std::max(begin, b * sample), std::min(end, (b + 1) * sample),
                      [&](int64_t i, auto lanes) {
                        Store<T>(y + i, dropped ? Vec<T>{} : Load<T>(x + i, lanes) * scale, lanes);
                      });
      }
    });
  });
}

const CpuKernelRegistration kDropPath({"drop_path", &DropPath});

}  // namespace
}  // namespace plimsoll::ops
