// y = x · weightᵀ + bias for a few rows of x, as when text is generated token by token.
//
// Such a product is bound by reading the weights, each of which is used once or a few times. So
// every row of `weight` is read in place and multiplied with all rows of x while it is in the
// first-level cache; nothing is packed. Threads share the rows of `weight`. Sums use the compute
// type, over vectors in a fixed order (SumVectors). Bytes: N·K·s.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {

// Up to this number, the products take no longer than reading the weights.
inline constexpr int64_t kFewRows = 8;

// x[M,K], weight[N,K], bias[N] or nullptr → y[M,N].
template <typename S>
void LinearOfFewRows(ThreadPool& pool, const S* x, int64_t m, const S* weight, int64_t n, int64_t k,
                     const S* bias, S* y) {
  using T = Compute<S>;
  constexpr int64_t kElements = 1 << 16;  // of weight that a thread takes at a time
  const int64_t grain = std::max<int64_t>(1, kElements / std::max<int64_t>(1, k));
  pool.ParallelFor(n, grain, [=](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const S* const w = weight + j * k;
      const Vec<T> start = bias == nullptr ? Vec<T>{} : Load<T>(bias + j, 1);
      for (int64_t i = 0; i < m; ++i) {
        const S* const row = x + i * k;
        const T product = SumVectors<T>(k, [=](int64_t p, auto count) {
          return Load<T>(row + p, count) * Load<T>(w + p, count);
        });
        Store<T>(y + i * n + j, start + product, 1);
      }
    }
  });
}

}  // namespace plimsoll::ops
