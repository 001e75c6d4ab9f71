// y[i] = word[i] < p · 2³² ? 0 : x[i] / (1 − p). Threads share chunks of elements; words are made a
// few hundred at a time in the first-level cache. Bytes: 2·n·s.
#include <algorithm>

#include "base/philox.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kWordsAtOnce = 512;

// Zero in the lanes whose word is below the threshold. Reads a full vector of words.
template <typename T>
Vec<T> DropBelow(uint32_t threshold, const uint32_t* words, Vec<T> v) {
  if constexpr (std::is_same_v<T, float>) {
    typedef uint32_t Words __attribute__((vector_size(32)));
    Words w;
    std::memcpy(&w, words, sizeof(w));
    return w < threshold ? Vec<T>{} : v;
  } else {
    typedef uint32_t Words __attribute__((vector_size(16)));
    typedef uint64_t Wide __attribute__((vector_size(32)));
    Words w;
    std::memcpy(&w, words, sizeof(w));
    return __builtin_convertvector(w, Wide) < threshold ? Vec<T>{} : v;
  }
}

void Dropout(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const double p = ctx.attributes.GetReal("p");
    const uint32_t threshold = DropThreshold(p);
    const T scale = static_cast<T>(1 / (1 - p));
    const PhiloxStream stream(ctx.in<int32_t>(1), ctx.attributes.GetInt("key"));
    const S* x = ctx.in<S>(0);
    S* y = ctx.out<S>(0);
    const int64_t n = ctx.in_shape(0).elements();
    ctx.pool.ParallelFor(n, kElementwiseGrain, [=](int64_t begin, int64_t end) {
      alignas(64) uint32_t words[kWordsAtOnce] = {};
      for (int64_t first = begin; first < end; first += kWordsAtOnce) {
        const int64_t count = std::min(kWordsAtOnce, end - first);
        stream.Words(first, count, words);
        ForVectors<T>(0, count, [&](int64_t i, auto lanes) {
          const Vec<T> kept = Load<T>(x + first + i, lanes) * scale;
          Store<T>(y + first + i, DropBelow<T>(threshold, words + i, kept), lanes);
        });
      }
    });
  });
}

const CpuKernelRegistration kDropout({"dropout", &Dropout});

}  // namespace
}  // namespace plimsoll::ops
