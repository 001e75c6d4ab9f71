// Constants and sizes that kernels of spectral normalization share: the least norm of a vector, and
// how a GPU divides sums.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

inline constexpr double kSpectralEps = 1e-12;

// The number of rows whose part of Wᵀ·u is summed together.
inline constexpr int64_t kSpectralChunk = 128;

struct SpectralSums {
  explicit SpectralSums(const graph::Shape& weight)
      : rows(weight.dim(0)),
        columns(weight.elements() / rows),
        chunks((rows + kSpectralChunk - 1) / kSpectralChunk) {}

  // Floats in a workspace: for Wᵀ·u, the sums of all columns in each chunk; for other sums, one of
  // each row, then their total.
  int64_t of_columns() const { return chunks * columns; }
  int64_t of_rows() const { return rows + 1; }

  int64_t rows, columns;  // numbers of rows and columns of the weight as a matrix
  int64_t chunks;
};

}  // namespace plimsoll::ops
