// Comparisons of op results with expected values.
#pragma once

#include <gtest/gtest.h>

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

}  // namespace plimsoll::ops
