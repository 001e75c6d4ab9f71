// A product with a bias, in parts whose sums are rounded once.
//
// With results of 16 bits, where a row of A, B or D doesn't begin or end at a multiple of 16 bytes,
// cuBLASLt's algorithms round the sums before they add the bias. There D starts as the bias, and
// the product is added to it; where only the columns end elsewhere, that is done for the last few
// alone.
#pragma once

#include <vector>

#include "ops/cuda/products/gemm.h"

namespace plimsoll::ops {

struct GemmPart {
  GemmProblem problem;  // k = 0: each row becomes the bias
  GemmBuffers buffers;
};

// To be computed in this order. One part, the product itself, where cuBLASLt rounds once.
std::vector<GemmPart> RoundedOnce(const GemmProblem& problem, const GemmBuffers& buffers);

}  // namespace plimsoll::ops
