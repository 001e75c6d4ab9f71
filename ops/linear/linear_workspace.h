// The scratch memory of linear_cuda.h's kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/op.h"
#include "ops/linear/cuda_gemm_workspace.h"
#include "ops/reductions/cuda_column_sums.h"

namespace plimsoll::ops {

inline int64_t LinearWorkspace(const graph::OpCall& /*call*/) { return kGemmWorkspaceBytes; }

// The column sums and the product use the workspace one after the other.
inline int64_t LinearDwWorkspace(const graph::OpCall& call) {
  const graph::Shape& dy = call.input(1).shape;
  int64_t product = call.has_output(0) ? kGemmWorkspaceBytes : 0;
  if (call.has_output(0) && call.output(0).dtype == graph::DType::kBFloat16 && call.has_input(2)) {
    product += LowGradientBytes(dy.dim(-1), call.input(0).shape.dim(-1));
  }
  return std::max(product, call.has_output(1) ? ColumnSumsBytes(dy.rows(), dy.dim(-1)) : 0);
}

}  // namespace plimsoll::ops
