// The workspace of column sums on the GPU (ops/cuda/column_sums.h): partial sums of chunks of rows.
// The chunks depend only on the shape.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

// The number of rows of a chunk. A thread block sums 128 columns of one chunk. The number of blocks
// is what runs at once on a large GPU (two on each of 132 multiprocessors), because a few more
// would need a second wave and double the time.
inline int64_t ColumnSumsChunk(int64_t rows, int64_t columns) {
  constexpr int64_t kColumnsOfBlock = 128, kBlocks = 264, kStep = 32, kLeast = 256;
  const int64_t across = (columns + kColumnsOfBlock - 1) / kColumnsOfBlock;
  const int64_t chunks = std::max<int64_t>(1, kBlocks / std::max<int64_t>(1, across));
  const int64_t chunk = (rows + chunks - 1) / chunks;
  return std::max(kLeast, (chunk + kStep - 1) / kStep * kStep);
}

inline int64_t ColumnSumsBytes(int64_t rows, int64_t columns) {
  const int64_t chunk = ColumnSumsChunk(rows, columns);
  return (rows + chunk - 1) / chunk * columns * static_cast<int64_t>(sizeof(float));
}

}  // namespace plimsoll::ops
