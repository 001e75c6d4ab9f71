// The scratch memory of batch norm's kernels on a GPU.
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "ops/cuda_column_sums.h"

namespace plimsoll::ops {

// How the rows of x are summed by column: in `groups` groups of `rows` rows, each in `chunks`
// chunks, `sums` sums at a time.
struct BatchNormSums {
  int64_t groups, rows, columns, chunk, chunks;
  int sums;

  BatchNormSums(const graph::Shape& x, int64_t group_count, int sum_count)
      : groups(group_count),
        rows(x.rows() / group_count),
        columns(x.dim(-1)),
        chunk(ColumnSumsChunk(rows, columns * group_count)),
        chunks((rows + chunk - 1) / chunk),
        sums(sum_count) {}

  int64_t totals() const { return groups * sums * columns; }  // [groups][sums][columns]
  // Partial sums, then their totals; floats.
  int64_t bytes() const { return (chunks + 1) * totals() * static_cast<int64_t>(sizeof(float)); }
};

}  // namespace plimsoll::ops
