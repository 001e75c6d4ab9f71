// y[i] = word[i] < p · 2³² ? 0 : x[i] / (1 − p). Threads share chunks of elements; words are made a
// few hundred at a time in the first-level cache. Bytes: 2·n·s.
#include <algorithm>

#include "base/philox.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kWordsAtOnce = 512;

void Dropout(const CpuContext& ctx) {
  DispatchFloat(ctx.inputs[0].type.dtype, [&]<typename T>() {
    const double p = ctx.attributes.GetReal("p");
    const uint32_t threshold = DropThreshold(p);
    const T scale = static_cast<T>(1 / (1 - p));
    const PhiloxStream stream(ctx.in<int32_t>(1), ctx.attributes.GetInt("key"));
    const T* x = ctx.in<T>(0);
    T* y = ctx.out<T>(0);
    const int64_t n = ctx.in_shape(0).elements();
    ctx.pool.ParallelFor(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
      alignas(64) uint32_t words[kWordsAtOnce];
      for (int64_t first = begin; first < end; first += kWordsAtOnce) {
        const int64_t count = std::min(kWordsAtOnce, end - first);
        stream.Words(first, count, words);
        const T* from = x + first;
        T* to = y + first;
// Same memory or none in common: no iteration reads what another writes.
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) {
          to[i] = from[i] * (words[i] < threshold ? T{0} : scale);
        }
      }
    });
  });
}

const CpuKernelRegistration kDropout({"dropout", &Dropout});

}  // namespace
}  // namespace plimsoll::ops
