// linear, matmul and rotary against their formulas written out in double; the matrix products also
// in the 16-bit types.
#include "ops/linear/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

TEST(Linear, KnownValues) {
  const TestTensor x = Values(DType::kFloat32, {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const TestTensor weight = Values(DType::kFloat32, {2, 3}, {1, 0, -1, 2, 1, 0});
  const TestTensor bias = Values(DType::kFloat32, {2}, {10, 20});
  const TestTensor y = RunOp("linear", {&x, &weight, &bias})[0];
  EXPECT_EQ(y.type().ToString(), "f32[1,2,2]");
  EXPECT_EQ(y.at(0), 8);
  EXPECT_EQ(y.at(1), 24);
  EXPECT_EQ(y.at(2), 8);
  EXPECT_EQ(y.at(3), 33);

  const TestTensor dy = Values(DType::kFloat32, {1, 2, 2}, {1, 2, 3, 4});
  const TestTensor dx = RunOp("linear_dx", {&dy, &weight, nullptr})[0];
  const std::vector<double> want_dx = {5, 2, -1, 11, 4, -3};
  for (int64_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx.at(i), want_dx[i]);

  const std::vector<TestTensor> dw =
      RunOp("linear_dw", {&x, &dy, nullptr, nullptr}, {{"bias", true}});
  const std::vector<double> want_dw = {13, 17, 21, 18, 24, 30};
  for (int64_t i = 0; i < dw[0].size(); ++i) EXPECT_EQ(dw[0].at(i), want_dw[i]);
  EXPECT_EQ(dw[1].at(0), 4);
  EXPECT_EQ(dw[1].at(1), 6);
}

TEST(Linear, GradientsAddInPlaceAndElsewhereAlike) {
  const TestTensor x = NormalValues(DType::kFloat32, {130, 40}, 1);
  const TestTensor dy = NormalValues(DType::kFloat32, {130, 300}, 2);
  const TestTensor acc_weight = NormalValues(DType::kFloat32, {300, 40}, 3);
  const TestTensor acc_bias = NormalValues(DType::kFloat32, {300}, 4);
  const Attributes attributes{{"bias", true}};
  const std::vector<TestTensor> fresh = RunOp("linear_dw", {&x, &dy, nullptr, nullptr}, attributes);
  const std::vector<TestTensor> added =
      RunOp("linear_dw", {&x, &dy, &acc_weight, &acc_bias}, attributes);
  for (int64_t i = 0; i < acc_weight.size(); ++i) {
    ASSERT_NEAR(added[0].at(i), fresh[0].at(i) + acc_weight.at(i), 1e-4);
  }
  double sum = 0;
  for (int64_t r = 0; r < 130; ++r) sum += dy.at(r * 300 + 299);
  EXPECT_NEAR(fresh[1].at(299), sum, 1e-5);
  EXPECT_NEAR(added[1].at(299), sum + acc_bias.at(299), 1e-5);

  OpRunner in_place("linear_dw", {&x, &dy, &acc_weight, &acc_bias}, attributes, 3);
  in_place.Share(0, acc_weight);
  in_place.Share(1, acc_bias);
  in_place.Run();
  EXPECT_TRUE(SameBits(acc_weight, added[0]));
  EXPECT_TRUE(SameBits(acc_bias, added[1]));
}

// The distance between neighbours of the type at `value`.
double Spacing(DType dtype, double value) {
  const int bits = dtype == DType::kBFloat16 ? 8 : dtype == DType::kFloat16 ? 11 : 24;
  const int lowest = dtype == DType::kFloat16 ? -13 : -125;
  int exponent;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent, lowest) - bits);
}

// Σ_p a(p)·b(p) + start in double, and how far from it a float32 sum that is rounded once to the
// type may be: k + 3 roundings to float32, and half a spacing of the type.
struct Expected {
  template <typename Left, typename Right>
  Expected(int64_t k, double start, const Left& left, const Right& right) : sum(start) {
    double magnitude = std::abs(start);
    for (int64_t p = 0; p < k; ++p) {
      sum += left(p) * right(p);
      magnitude += std::abs(left(p) * right(p));
    }
    float_error = static_cast<double>(k + 3) * 0x1p-24 * magnitude;
  }
  double Bound(DType stored) const {
    const double before = std::abs(sum) + float_error;
    return float_error + (stored == DType::kFloat32 ? 0 : 0.5 * Spacing(stored, before));
  }
  double sum, float_error = 0;
};

class LowPrecision : public testing::TestWithParam<DType> {
 protected:
  // More than one of GEMM's blocks of k, at whose boundaries nothing may be rounded.
  static constexpr int64_t kRows = 5, kIn = 1200, kOut = 400;
  const DType dtype_ = GetParam();
  const TestTensor x_ = NormalValues(dtype_, {kRows, kIn}, 1);
  const TestTensor weight_ = NormalValues(dtype_, {kOut, kIn}, 2);
  const TestTensor dy_ = NormalValues(dtype_, {kRows, kOut}, 3);

  static void ExpectElement(const TestTensor& got, int64_t i, const Expected& want) {
    ASSERT_NEAR(got.at(i), want.sum, want.Bound(got.type().dtype)) << "element " << i;
  }
};

TEST_P(LowPrecision, LinearIsTheExactProductRoundedOnce) {
  const TestTensor bias = NormalValues(dtype_, {kOut}, 4);
  const TestTensor y = RunOp("linear", {&x_, &weight_, &bias})[0];
  ASSERT_EQ(y.type().dtype, dtype_);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kOut; j += 13) {
      ExpectElement(y, i * kOut + j,
                    Expected(
                        kIn, bias.at(j), [&](int64_t p) { return x_.at(i * kIn + p); },
                        [&](int64_t p) { return weight_.at(j * kIn + p); }));
    }
  }
}

TEST_P(LowPrecision, LinearDxIsTheExactProductRoundedOnce) {
  const TestTensor acc = NormalValues(dtype_, {kRows, kIn}, 4);
  const TestTensor dx = RunOp("linear_dx", {&dy_, &weight_, &acc})[0];
  ASSERT_EQ(dx.type().dtype, dtype_);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kIn; j += 13) {
      ExpectElement(dx, i * kIn + j,
                    Expected(
                        kOut, acc.at(i * kIn + j), [&](int64_t p) { return dy_.at(i * kOut + p); },
                        [&](int64_t p) { return weight_.at(p * kIn + j); }));
    }
  }
}

TEST_P(LowPrecision, GradientsOfWeightAndBiasAreFloat32) {
  const TestTensor acc_weight = NormalValues(DType::kFloat32, {kOut, kIn}, 4);
  const TestTensor acc_bias = NormalValues(DType::kFloat32, {kOut}, 5);
  const std::vector<TestTensor> gradients =
      RunOp("linear_dw", {&x_, &dy_, &acc_weight, &acc_bias}, {{"bias", true}});
  ASSERT_EQ(gradients[0].type().dtype, DType::kFloat32);
  ASSERT_EQ(gradients[1].type().dtype, DType::kFloat32);
  for (int64_t i = 0; i < kOut; i += 13) {
    const auto dy = [&](int64_t r) { return dy_.at(r * kOut + i); };
    for (int64_t j = 0; j < kIn; j += 13) {
      ExpectElement(gradients[0], i * kIn + j,
                    Expected(kRows, acc_weight.at(i * kIn + j), dy,
                             [&](int64_t r) { return x_.at(r * kIn + j); }));
    }
    ExpectElement(gradients[1], i, Expected(kRows, acc_bias.at(i), dy, [](int64_t) { return 1; }));
  }
}

TEST_P(LowPrecision, SumsOverManyTokensLoseNothing) {
  // Beyond 2^11, consecutive integers are not all representable in either type.
  constexpr int64_t kTokens = 4001;
  TestTensor ones({dtype_, {kTokens, 1}});
  for (int64_t r = 0; r < kTokens; ++r) ones.set(r, 1);
  const std::vector<TestTensor> gradients =
      RunOp("linear_dw", {&ones, &ones, nullptr, nullptr}, {{"bias", true}});
  EXPECT_EQ(gradients[0].at(0), kTokens);
  EXPECT_EQ(gradients[1].at(0), kTokens);
}

TEST_P(LowPrecision, GradientsAddInPlaceAndElsewhereAlike) {
  const TestTensor acc = NormalValues(dtype_, {kRows, kIn}, 4);
  const TestTensor added = RunOp("linear_dx", {&dy_, &weight_, &acc})[0];
  OpRunner in_place("linear_dx", {&dy_, &weight_, &acc}, {}, 3);
  in_place.Share(0, acc);
  in_place.Run();
  EXPECT_TRUE(SameBits(acc, added));
}

TEST_P(LowPrecision, RefusesMixedTypes) {
  const TestTensor wide = NormalValues(DType::kFloat32, {kOut, kIn}, 4);
  const TestTensor narrow_sum = NormalValues(dtype_, {kOut, kIn}, 4);
  EXPECT_THROW(RunOp("linear", {&x_, &wide, nullptr}), InternalError);
  EXPECT_THROW(RunOp("linear_dw", {&x_, &dy_, &narrow_sum, nullptr}, {{"bias", false}}),
               InternalError);
}

// One GEMM at a time, and many small ones in parallel.
TEST_P(LowPrecision, MatmulIsTheExactProductRoundedOnce) {
  for (const int64_t batch : {2, 9}) {
    const int64_t m = 6, n = 10, k = 900;
    const TestTensor a = NormalValues(dtype_, {batch, m, k}, 1);
    const TestTensor b = NormalValues(dtype_, {batch, n, k}, 2);
    const TestTensor c = RunOp("matmul", {&a, &b}, {{"trans_a", false}, {"trans_b", true}}, 3)[0];
    ASSERT_EQ(c.type().dtype, dtype_);
    for (int64_t s = 0; s < batch; ++s) {
      for (int64_t i = 0; i < m * n; ++i) {
        ExpectElement(c, s * m * n + i,
                      Expected(
                          k, 0, [&](int64_t p) { return a.at((s * m + i / n) * k + p); },
                          [&](int64_t p) { return b.at((s * n + i % n) * k + p); }));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LowPrecision, testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

TEST(Matmul, EveryTransposition) {
  const int64_t batch = 9, m = 5, n = 7, k = 3;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      const TestTensor a =
          NormalValues(DType::kFloat64, {batch, trans_a ? k : m, trans_a ? m : k}, 1);
      const TestTensor b =
          NormalValues(DType::kFloat64, {batch, trans_b ? n : k, trans_b ? k : n}, 2);
      const TestTensor c =
          RunOp("matmul", {&a, &b}, {{"trans_a", trans_a}, {"trans_b", trans_b}})[0];
      for (int64_t s = 0; s < batch; ++s) {
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double want = 0;
            for (int64_t p = 0; p < k; ++p) {
              want += a.at(s * m * k + (trans_a ? p * m + i : i * k + p)) *
                      b.at(s * k * n + (trans_b ? j * k + p : p * n + j));
            }
            ASSERT_NEAR(c.at((s * m + i) * n + j), want, 1e-12);
          }
        }
      }
    }
  }
}

Attributes RotaryOf(bool inverse) {
  return {
      {"heads", int64_t{3}}, {"kv_heads", int64_t{1}}, {"theta", 10000.0}, {"inverse", inverse}};
}

TEST(Rotary, RotatesHalvesByPosition) {
  const int64_t hd = 8, width = 5 * hd;
  const TestTensor qkv = NormalValues(DType::kFloat64, {2, 30, width}, 1);
  const TestTensor got = RunOp("rotary", {&qkv}, RotaryOf(false))[0];
  for (int64_t row = 0; row < 60; ++row) {
    for (int64_t head = 0; head < 5; ++head) {
      for (int64_t i = 0; i < hd / 2; ++i) {
        const int64_t at = row * width + head * hd + i;
        const double angle =
            head == 4 ? 0 : static_cast<double>(row % 30) * std::pow(10000.0, -2.0 * i / hd);
        // The angles are rounded to float32: 30 radians to about 2e-6.
        ASSERT_NEAR(got.at(at),
                    qkv.at(at) * std::cos(angle) - qkv.at(at + hd / 2) * std::sin(angle), 1e-5);
        ASSERT_NEAR(got.at(at + hd / 2),
                    qkv.at(at + hd / 2) * std::cos(angle) + qkv.at(at) * std::sin(angle), 1e-5);
      }
    }
  }
}

TEST(Rotary, InverseUndoesIt) {
  const TestTensor qkv = NormalValues(DType::kFloat64, {2, 30, 40}, 1);
  const TestTensor there = RunOp("rotary", {&qkv}, RotaryOf(false))[0];
  const TestTensor back = RunOp("rotary", {&there}, RotaryOf(true))[0];
  for (int64_t i = 0; i < qkv.size(); ++i) ASSERT_NEAR(back.at(i), qkv.at(i), 1e-6);
}

// Also of the values, which it leaves as they are, and in place.
TEST(Rotary, FindsTheLargestMagnitudeOfItsResult) {
  Attributes attributes = RotaryOf(true);
  attributes.Set("largest", true);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    for (const int64_t at : {int64_t{1237}, int64_t{2 * 30 * 40 - 1}}) {
      TestTensor qkv = NormalValues(dtype, {2, 30, 40}, 1);
      qkv.set(at, -100);
      const std::vector<TestTensor> apart = RunOp("rotary", {&qkv}, attributes);
      ExpectLargest(apart[1], apart[0]);
      OpRunner in_place("rotary", {&qkv}, attributes, 2);
      in_place.Share(0, qkv);
      in_place.Run();
      EXPECT_TRUE(SameBits(in_place.output(0), apart[0]));
      EXPECT_TRUE(SameBits(in_place.output(1), apart[1]));
    }
  }
}

// Hugging Face's rope_type "linear": the angles of positions divided by the factor.
TEST(Rotary, LinearScalingDividesPositions) {
  const int64_t hd = 64, length = 40, width = 3 * hd;
  const double theta = 10000, factor = 2.5;
  const TestTensor qkv = NormalValues(DType::kFloat64, {1, length, width}, 1);
  const TestTensor got = RunOp("rotary", {&qkv},
                               {{"heads", int64_t{1}},
                                {"kv_heads", int64_t{1}},
                                {"theta", theta},
                                {"inverse", false},
                                {"factor", factor}})[0];
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t i = 0; i < hd / 2; ++i) {
      const double angle = static_cast<double>(t) / factor * std::pow(theta, -2.0 * i / hd);
      const int64_t at = t * width + i;
      ASSERT_NEAR(got.at(at), qkv.at(at) * std::cos(angle) - qkv.at(at + hd / 2) * std::sin(angle),
                  1e-5);
    }
  }
}

// The rest of a head and the values keep their bits; in place, too.
TEST(Rotary, TurnsAPartOfEachHead) {
  const int64_t hd = 10, turned = 6, length = 7, heads = 3;
  const double scale = 1.25;
  const TestTensor qkv = NormalValues(DType::kFloat64, {2, length, heads * hd}, 1);
  const Attributes attributes = {{"heads", int64_t{1}},
                                 {"kv_heads", int64_t{1}},
                                 {"theta", 100.0},
                                 {"inverse", false},
                                 {"rotary_width", turned},
                                 {"attention_factor", scale},
                                 {"stretch", std::string("1 2.5 0.5")}};
  const std::vector<double> stretch = {1, 2.5, 0.5};
  const TestTensor got = RunOp("rotary", {&qkv}, attributes)[0];
  for (int64_t row = 0; row < 2 * length; ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t at = (row * heads + head) * hd;
      const int64_t first_kept = head == 2 ? 0 : turned;
      for (int64_t i = first_kept; i < hd; ++i) ASSERT_EQ(got.at(at + i), qkv.at(at + i));
      for (int64_t i = 0; i < first_kept / 2; ++i) {
        const double angle = static_cast<double>(row % length) / stretch[i] *
                             std::pow(100.0, -2.0 * static_cast<double>(i) / turned);
        const double x = qkv.at(at + i), y = qkv.at(at + i + turned / 2);
        ASSERT_NEAR(got.at(at + i), scale * (x * std::cos(angle) - y * std::sin(angle)), 1e-5);
        ASSERT_NEAR(got.at(at + i + turned / 2),
                    scale * (y * std::cos(angle) + x * std::sin(angle)), 1e-5);
      }
    }
  }
  OpRunner in_place("rotary", {&qkv}, attributes, 2);
  in_place.Share(0, qkv);
  in_place.Run();
  EXPECT_TRUE(SameBits(in_place.output(0), got));
}

// The frequencies that transformers 5 computes for rope_type "yarn" with theta 500, factor 4 and
// an original length of 60, of heads 16 wide: a pair that stays, one that is slowed in part, and
// pairs that turn a quarter as fast.
TEST(Rotary, YarnSlowsPairsWithFewTurns) {
  const std::vector<double> want = {1,
                                    0.344897449,
                                    0.10573712,
                                    0.0243123118,
                                    0.0111803403,
                                    0.00514142821,
                                    0.00236435398,
                                    0.00108727964};
  const int64_t hd = 16;
  const TestTensor qkv = NormalValues(DType::kFloat64, {1, 2, 3 * hd}, 1);
  const TestTensor got = RunOp("rotary", {&qkv},
                               {{"heads", int64_t{1}},
                                {"kv_heads", int64_t{1}},
                                {"theta", 500.0},
                                {"inverse", false},
                                {"factor", 4.0},
                                {"beta_fast", 32.0},
                                {"beta_slow", 1.0},
                                {"truncate", true},
                                {"original_sequence", int64_t{60}}})[0];
  for (int64_t i = 0; i < hd / 2; ++i) {
    const int64_t at = 3 * hd + i;  // position 1
    ASSERT_NEAR(got.at(at),
                qkv.at(at) * std::cos(want[i]) - qkv.at(at + hd / 2) * std::sin(want[i]), 1e-6);
  }
}

// Compared with the piecewise formula of Hugging Face's rope_type "llama3": a pair of each kind.
TEST(Rotary, Llama3ScalingSlowsLongWaves) {
  const int64_t hd = 64;
  const double theta = 10000, factor = 8, low = 1, high = 4, original = 256;
  const TestTensor qkv = NormalValues(DType::kFloat64, {1, 2, 3 * hd}, 1);
  const TestTensor got = RunOp("rotary", {&qkv},
                               {{"heads", int64_t{1}},
                                {"kv_heads", int64_t{1}},
                                {"theta", theta},
                                {"inverse", false},
                                {"factor", factor},
                                {"low_freq_factor", low},
                                {"high_freq_factor", high},
                                {"original_sequence", static_cast<int64_t>(original)}})[0];
  int kept = 0, slowed = 0, mixed = 0;
  for (int64_t i = 0; i < hd / 2; ++i) {
    double frequency = std::pow(theta, -2.0 * i / hd);
    const double wavelength = 2 * M_PI / frequency;
    if (wavelength < original / high) {
      ++kept;
    } else if (wavelength > original / low) {
      ++slowed;
      frequency /= factor;
    } else {
      ++mixed;
      const double smooth = (original / wavelength - low) / (high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
    const int64_t at = 3 * hd + i;  // position 1
    ASSERT_NEAR(got.at(at),
                qkv.at(at) * std::cos(frequency) - qkv.at(at + hd / 2) * std::sin(frequency), 1e-6);
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(slowed, 0);
  EXPECT_GT(mixed, 0);
}

}  // namespace
}  // namespace plimsoll::ops
