// What tests of linear_cross_entropy and linear_log_probs on a GPU have in common: operands of a
// call, and comparisons.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gpu/capability.h"
#include "gpu/libraries.h"
#include "ops/loss/linear_cross_entropy.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

// x[rows,width], weight[vocabulary,width] and targets[rows], of which some are ignored and one is
// the last token.
struct LinearLossOperands {
  // Logits have the magnitude of `spread`.
  LinearLossOperands(graph::DType dtype, int64_t rows, int64_t vocabulary, int64_t width,
                     double spread = 3)
      : x(NormalValues(dtype, {rows, width}, 1)),
        weight(NormalValues(dtype, {vocabulary, width}, 2,
                            spread / std::sqrt(static_cast<double>(width)))),
        targets({graph::DType::kInt32, {rows}}) {
    for (int64_t r = 0; r < rows; ++r) {
      targets.set(r, r % 5 == 3 ? -100 : static_cast<double>(r * 7919 % vocabulary));
    }
    targets.set(rows - 1, static_cast<double>(vocabulary - 1));
  }

  TestTensor x, weight, targets;
  gpu::Libraries libraries;
};

inline TestTensor InFloat32(const TestTensor& from) {
  TestTensor to({graph::DType::kFloat32, from.type().shape});
  for (int64_t i = 0; i < from.size(); ++i) to.set(i, from.at(i));
  return to;
}

// `tolerance` is relative to the largest value.
inline void ExpectWithin(const TestTensor& got, const TestTensor& want, double tolerance,
                         const char* what) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(want.at(i)));
  for (int64_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got.at(i), want.at(i), tolerance * largest) << what << " at " << i;
  }
}

// Stored logits are rounded, with relative errors of 2^-9 and 2^-12; so are their gradients. In
// fp16 exponentials in their place, and what they are multiplied with, are rounded to bf16: each
// factor by at most 2^-8.
inline double LossTolerance(graph::DType dtype, int64_t vocabulary, int64_t width,
                            bool bias = false) {
  if (dtype == graph::DType::kFloat32) return 1e-5;
  if (dtype == graph::DType::kBFloat16) return 0x1p-6;
  return TakesLossExponentials(vocabulary, width, dtype, bias, gpu::CurrentCapability()) ? 0x1p-7
                                                                                         : 0x1p-9;
}

}  // namespace plimsoll::ops
