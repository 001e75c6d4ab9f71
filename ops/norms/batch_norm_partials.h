// The scratch memory of batch norm's kernels on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

// How the rows of x are summed by column: in `groups` groups of `rows` rows. Each group is summed
// by `chunks` blocks of threads, `sums` sums at a time.
struct BatchNormSums {
  int64_t groups, rows, columns, chunks;
  int sums;

  BatchNormSums(const graph::Shape& x, int64_t group_count, int sum_count)
      : groups(group_count),
        rows(x.rows() / group_count),
        columns(x.dim(-1)),
        chunks(Chunks(rows, columns * group_count)),
        sums(sum_count) {}

  // The number of blocks, of 128 columns each, that run at once on a large GPU (two on each of 132
  // multiprocessors). A block has at least 128 rows.
  static int64_t Chunks(int64_t rows, int64_t columns) {
    constexpr int64_t kBlocks = 264, kColumns = 128, kLeastRows = 128;
    const int64_t across = std::max<int64_t>(1, (columns + kColumns - 1) / kColumns);
    return std::clamp<int64_t>(kBlocks / across, 1, std::max<int64_t>(1, rows / kLeastRows));
  }
  int64_t totals() const { return groups * sums * columns; }  // [groups][sums][columns]
  // The bytes of the partial sums and their totals, which are floats.
  int64_t bytes() const { return (chunks + 1) * totals() * static_cast<int64_t>(sizeof(float)); }
};

}  // namespace plimsoll::ops
