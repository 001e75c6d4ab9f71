// Column sums on the CPU: the gradient of a bias. A task takes kSumColumns columns of all rows. It
// sums blocks of kSumRows rows in the compute type, and adds the blocks in double. Bytes: every
// argument once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {

// 1 KiB of a row of floats: long enough for the prefetcher, and short enough for the sums to stay
// in L1.
inline constexpr int64_t kSumColumns = 256;
inline constexpr int64_t kSumRows = 64;

// sums = the column sums of `rows` rows of dy; rows are added in groups of four.
template <typename S>
void AddRows(const S* dy, int64_t rows, int64_t stride, int64_t columns, Compute<S>* sums) {
  using T = Compute<S>;
  std::fill(sums, sums + columns, T(0));
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const S* a = dy + r * stride;
    ForVectors<T>(0, columns, [&](int64_t j, auto count) {
      const Vec<T> first = Load<T>(a + j, count) + Load<T>(a + stride + j, count);
      const Vec<T> second = Load<T>(a + 2 * stride + j, count) + Load<T>(a + 3 * stride + j, count);
      Store<T>(sums + j, Load<T>(sums + j, count) + (first + second), count);
    });
  }
  for (; r < rows; ++r) {
    const S* a = dy + r * stride;
    ForVectors<T>(0, columns, [&](int64_t j, auto count) {
      Store<T>(sums + j, Load<T>(sums + j, count) + Load<T>(a + j, count), count);
    });
  }
}

// out[j] = Σ over the rows of dy[row, j] (+ acc[j]). dy is [rows, n], with rows `stride` apart; acc
// may be out.
template <typename S>
void ColumnSums(const S* dy, int64_t rows, int64_t n, int64_t stride, const Compute<S>* acc,
                Compute<S>* out, ThreadPool& pool) {
  using T = Compute<S>;
  pool.ParallelFor(n, kSumColumns, [&](int64_t begin, int64_t end) {
    alignas(64) T sums[kSumColumns];
    alignas(64) double totals[kSumColumns] = {};
    const int64_t columns = end - begin;
    for (int64_t r = 0; r < rows; r += kSumRows) {
      AddRows(dy + r * stride + begin, std::min(kSumRows, rows - r), stride, columns, sums);
      for (int64_t j = 0; j < columns; ++j) totals[j] += sums[j];
    }
    for (int64_t j = 0; j < columns; ++j) {
      const double start = acc == nullptr ? 0 : acc[begin + j];
      out[begin + j] = static_cast<T>(start + totals[j]);
    }
  });
}

}  // namespace plimsoll::ops
