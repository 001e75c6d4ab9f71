// sums[j] = Σ over rows of x[row, j] (+ acc[j]): the gradient of a bias. x is float32, bf16 or
// fp16, row-major without gaps; sums are float32, in an order that depends only on the shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "graph/dtype.h"
#include "ops/reductions/cuda_column_sums.h"

namespace plimsoll::ops {

// `acc` may be `sums` itself, or nullptr. The workspace has ColumnSumsBytes bytes.
void ColumnSums(cudaStream_t stream, graph::DType dtype, const void* x, int64_t rows,
                int64_t columns, const float* acc, float* sums, void* workspace);

// The second launch of ColumnSums: adds the partial sums of all chunks (partial_sums.cuh) and acc.
void AddPartialSums(cudaStream_t stream, const float* partials, int64_t chunks, int64_t columns,
                    const float* acc, float* sums);

}  // namespace plimsoll::ops
