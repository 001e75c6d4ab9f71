// Column sums over many rows (the gradients of per-column weights) that are deterministic and
// parallel. Each chunk of rows has its own partial sums in the workspace, and these are added in
// the order of the chunks. The chunks depend only on the shape. The sums have the type in which
// kernels compute: float for 16-bit rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {

// The number of rows that a thread takes at a time in a loop over rows of `width` elements.
inline int64_t RowGrain(int64_t width) {
  return std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, width));
}

// The number of rows in a chunk: at least 16, so that the partial sums are cheap compared with the
// rows. At most 64 chunks exist, which bounds the workspace.
inline int64_t RowsPerChunk(int64_t rows) { return std::max<int64_t>(16, (rows + 63) / 64); }

inline int64_t RowPartialsBytes(const graph::TensorType& x, int sums) {
  const int64_t rows = x.shape.rows();
  const int64_t chunk = RowsPerChunk(rows);
  return (rows + chunk - 1) / chunk * sums * x.shape.dim(-1) *
         graph::ByteSize(graph::ComputeType(x.dtype));
}

template <typename T>
class RowPartials {
 public:
  // Stores `sums` arrays of `width` partial sums for each chunk of the rows in ctx.workspace, which
  // has RowPartialsBytes.
  RowPartials(const CpuContext& ctx, int64_t rows, int64_t width, int sums)
      : partials_(static_cast<T*>(ctx.workspace)),
        rows_(rows),
        width_(width),
        stride_(sums * width),
        chunk_(RowsPerChunk(rows)) {}

  // Calls body(begin, end, partial) for each chunk of rows; partial (sums · width elements) is
  // zero.
  template <typename Body>
  void ForChunks(ThreadPool& pool, const Body& body) const {
    pool.ParallelFor(rows_, chunk_, [&](int64_t begin, int64_t end) {
      T* partial = nullptr;
      if (stride_ > 0) {
        partial = partials_ + begin / chunk_ * stride_;
        std::memset(partial, 0, stride_ * sizeof(T));
      }
      body(begin, end, partial);
    });
  }

  // out = the total of sum number `index` (+ acc).
  void Combine(ThreadPool& pool, int index, const T* acc, T* out) const {
    const int64_t chunks = (rows_ + chunk_ - 1) / chunk_;
    constexpr int64_t kColumns = 256;
    pool.ParallelFor(width_, kColumns, [&](int64_t begin, int64_t end) {
      ForVectors<T>(begin, end, [&](int64_t i, auto count) {
        Vec<T> total = {};
        const T* from = partials_ + index * width_ + i;
        for (int64_t c = 0; c < chunks; ++c) total += Load<T>(from + c * stride_, count);
        if (acc != nullptr) total += Load<T>(acc + i, count);
        Store<T>(out + i, total, count);
      });
    });
  }

 private:
  T* partials_;
  int64_t rows_, width_, stride_, chunk_;
};

}  // namespace plimsoll::ops
