// bf16 and f16 in ops: conversions, and sums that must not be kept in 16 bits. The registry test
// checks that each op agrees with double.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "graph/autodiff.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr DType kLow[] = {DType::kBFloat16, DType::kFloat16};
constexpr uint32_t kPatterns = 0x10000;

// Equal bits, or both NaN.
bool Same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(LowPrecision, CastThereAndBackKeepsEveryValue) {
  for (DType dtype : kLow) {
    TestTensor all({dtype, {int64_t{kPatterns}}});
    for (uint32_t i = 0; i < kPatterns; ++i) all.as<uint16_t>()[i] = static_cast<uint16_t>(i);
    for (DType wide : {DType::kFloat32, DType::kFloat64}) {
      const TestTensor widened =
          RunOp("cast", {&all}, {{"dtype", std::string(graph::Name(wide))}})[0];
      const TestTensor back =
          RunOp("cast", {&widened}, {{"dtype", std::string(graph::Name(dtype))}})[0];
      for (int64_t i = 0; i < all.size(); ++i) {
        ASSERT_TRUE(Same(static_cast<float>(back.at(i)), static_cast<float>(all.at(i)))) << i;
      }
    }
  }
}

TEST(LowPrecision, OverflowOfF16IsInfinite) {
  const TestTensor x = Values(DType::kFloat16, {2}, {60000, -60000});
  const TestTensor doubled = RunOp("add", {&x, &x})[0];
  EXPECT_EQ(doubled.at(0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(doubled.at(1), -std::numeric_limits<double>::infinity());
  // A sum over the tensor is float32 and does not overflow.
  const TestTensor norm = RunOp("squared_norm", {&x})[0];
  EXPECT_NEAR(norm.at(0), 7.2e9, 7.2e9 * 1e-3);
}

// A sum of 1000 ones would reach only 256 in bf16, and a sum of 140000 at most 65504 in f16.
TEST(LowPrecision, SumsAreNotKeptIn16Bits) {
  constexpr int64_t kRows = 1000;
  for (DType dtype : kLow) {
    SCOPED_TRACE(graph::Name(dtype));
    const TestTensor dy = Values(dtype, {kRows, 1, 3}, std::vector<double>(3 * kRows, 1));
    const TestTensor tokens = Values(DType::kInt32, {kRows, 1}, std::vector<double>(kRows, 1));
    const TestTensor dweight =
        RunOp("embedding_dw", {&tokens, &dy, nullptr}, {{"rows", int64_t{2}}})[0];
    EXPECT_EQ(dweight.type().dtype, DType::kFloat32);
    EXPECT_EQ(dweight.at(0), 0);
    EXPECT_EQ(dweight.at(3), kRows);
    const TestTensor dposition = RunOp("position_dw", {&dy, nullptr}, {{"rows", int64_t{1}}})[0];
    EXPECT_EQ(dposition.at(2), kRows);

    const TestTensor x = NormalValues(dtype, {kRows, 1, 3}, 1);
    const TestTensor weight = Values(dtype, {3}, {1, 1, 1});
    const TestTensor zeros = Values(DType::kFloat32, {kRows}, std::vector<double>(kRows, 0));
    const TestTensor dbias = RunOp(
        "layer_norm_backward", {&x, &weight, &zeros, &zeros, &dy, nullptr, nullptr, nullptr})[2];
    EXPECT_EQ(dbias.type().dtype, DType::kFloat32);
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(dbias.at(i), kRows);

    constexpr int64_t kMany = 70000;
    const TestTensor twos = Values(dtype, {kMany}, std::vector<double>(kMany, 2));
    EXPECT_EQ(RunOp("sum", {&twos})[0].at(0), 2 * kMany);
    EXPECT_EQ(RunOp("squared_norm", {&twos})[0].at(0), 4 * kMany);
  }
}

TEST(LowPrecision, GlobalNormTakesAnyMixOfTypes) {
  const TestTensor a = Values(DType::kBFloat16, {2}, {1, 2});
  const TestTensor b = Values(DType::kFloat16, {}, {3});
  const TestTensor c = Values(DType::kFloat32, {5}, {1, 1, 1, 1, 1});
  const TestTensor d = Values(DType::kFloat64, {1}, {9});
  EXPECT_EQ(RunOp("global_norm", {&a, &b, &c, &d})[0].at(0), 10);
}

// A norm in 16 bits is the float32 norm of the same values, rounded once.
TEST(LowPrecision, NormsRoundTheirResultOnly) {
  for (DType dtype : kLow) {
    SCOPED_TRACE(graph::Name(dtype));
    const TestTensor x = NormalValues(dtype, {4, 50}, 3);
    const TestTensor weight = NormalValues(dtype, {50}, 4);
    const TestTensor y = RunOp("rms_norm", {&x, &weight}, {{"eps", 1e-5}})[0];
    TestTensor wide_x({DType::kFloat32, {4, 50}}), wide_weight({DType::kFloat32, {50}});
    for (int64_t i = 0; i < x.size(); ++i) wide_x.set(i, x.at(i));
    for (int64_t i = 0; i < weight.size(); ++i) wide_weight.set(i, weight.at(i));
    TestTensor expected({dtype, {4, 50}});
    const TestTensor wide = RunOp("rms_norm", {&wide_x, &wide_weight}, {{"eps", 1e-5}})[0];
    for (int64_t i = 0; i < x.size(); ++i) expected.set(i, wide.at(i));
    for (int64_t i = 0; i < x.size(); ++i) ASSERT_EQ(y.at(i), expected.at(i)) << i;
  }
}

// The gradient that a float32 table gets from its bf16 copy is a float32 sum already: nothing is
// cast back. The gradient of an activation is cast to the activation's type.
TEST(LowPrecision, GradientsPassThroughCasts) {
  graph::Program program = graph::Parse(R"(program p
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[5,4] parameter persistent
forward
  %low: bf16[5,4] = cast(%table) {dtype="bf16"}
  %y: bf16[2,3,4] = embedding(%tokens, %low, _)
  %wide: f32[2,3,4] = cast(%y) {dtype="f32"}
  %loss: f32[] = sum(%wide)
)");
  graph::Autodiff({.loss = "loss"}).Run(program);
  graph::ExpectProgram(program, R"(program p
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[5,4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %low: bf16[5,4] = cast(%table) {dtype="bf16"}
  %y: bf16[2,3,4] = embedding(%tokens, %low, _)
  %wide: f32[2,3,4] = cast(%y) {dtype="f32"}
  %loss = sum(%wide)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %fill: f32[2,3,4] = fill() {d0=2, d1=3, d2=4, dtype="f32", rank=3, value=1.0} !autodiff
  %scale_by: f32[2,3,4] = scale_by(%fill, %loss.seed) !autodiff
  %cast: bf16[2,3,4] = cast(%scale_by) {dtype="bf16"} !autodiff
  %embedding_dw: f32[5,4] = embedding_dw(%tokens, %cast, _) {rows=5} !autodiff
  %table.grad: f32[5,4] gradient of %table as gradient = scale(%embedding_dw) {factor=1.0} !autodiff
)");
}

}  // namespace
}  // namespace plimsoll::ops
