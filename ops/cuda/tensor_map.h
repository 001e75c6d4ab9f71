// Descriptors of matrices in device memory for Hopper's copy engine, which copies boxes of them to
// shared memory and back (ops/cuda/tensor_copy.cuh). Descriptors are passed to kernels by value, as
// __grid_constant__ parameters.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::ops {

// A row-major matrix [rows, columns] of bf16 or fp16 whose rows are `stride` elements apart. Base
// and rows must be aligned to 16 bytes.
struct MappedMatrix {
  const void* data = nullptr;
  graph::DType dtype = graph::DType::kBFloat16;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
};

// Whether the copy engine can read the matrix.
bool CanMap(const MappedMatrix& matrix);

// The descriptor for boxes of `box_rows` (at most 256) by 64 elements (128 bytes), stored in shared
// memory in wgmma's 128-byte swizzle. Elements outside the matrix are read as zeros and not
// written.
CUtensorMap MapMatrix(const MappedMatrix& matrix, int box_rows);

// Heads of a batch of sequences: element [b, row, head, column] of [batch, rows, heads, width].
struct MappedHeads {
  const void* data = nullptr;
  graph::DType dtype = graph::DType::kBFloat16;
  int64_t batch = 0;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t width = 0;  // a multiple of 8
};

// The descriptor for boxes of 64 rows of a head and 64 columns, with the same layout and treatment
// of bounds. The base must be aligned to 16 bytes.
CUtensorMap MapHeads(const MappedHeads& heads);

}  // namespace plimsoll::ops
