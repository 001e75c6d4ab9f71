// The scratch memory of norms' backward kernels on a GPU: partial sums of the gradients of weight
// and bias, [partials][sums][D] in f32.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

// The number of thread blocks that share the rows, each with its own partial sums. It fills a large
// GPU (one on each of 132 multiprocessors), and is the same on all GPUs, so that the sums are the
// same.
inline int64_t NormPartials(int64_t rows) { return std::clamp<int64_t>((rows + 15) / 16, 1, 132); }

// `sums`: how many of dweight and dbias are requested.
inline int64_t NormPartialsBytes(const graph::TensorType& x, int sums) {
  return NormPartials(x.shape.rows()) * sums * x.shape.dim(-1) *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace plimsoll::ops
