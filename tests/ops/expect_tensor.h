// Comparisons of op results with expected values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

// Expects each |got − want| ≤ tolerance·(1 + |want|).
inline void ExpectNear(const TestTensor& got, const std::vector<double>& want, double tolerance,
                       const char* what) {
  ASSERT_EQ(got.size(), static_cast<int64_t>(want.size())) << what;
  for (int64_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got.at(i), want[i], tolerance * (1 + std::abs(want[i]))) << what << " at " << i;
  }
}

inline bool SameBits(const TestTensor& a, const TestTensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.type().bytes()) == 0;
}

inline void ExpectSameBits(const TestTensor& got, const TestTensor& want) {
  EXPECT_EQ(got.type(), want.type());
  EXPECT_TRUE(SameBits(got, want));
}

inline void ExpectSameBits(const std::vector<TestTensor>& got,
                           const std::vector<TestTensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ExpectSameBits(got[i], want[i]);
}

// Expects `largest` to be the largest magnitude of the elements of `of`, by the bits of float32.
inline void ExpectLargest(const TestTensor& largest, const TestTensor& of) {
  uint32_t want = 0;
  for (int64_t i = 0; i < of.size(); ++i) {
    want = std::max(want, std::bit_cast<uint32_t>(static_cast<float>(of.at(i))) & 0x7fffffff);
  }
  ASSERT_EQ(largest.type(), (graph::TensorType{graph::DType::kFloat32, {}}));
  const float number = std::bit_cast<float>(want);
  EXPECT_TRUE(std::isnan(number) ? std::isnan(largest.at(0)) : largest.at(0) == number)
      << largest.at(0) << ", not " << number;
}

}  // namespace plimsoll::ops
