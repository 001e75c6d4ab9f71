// Spectral normalization, by hand.
#include "ops/norms/spectral_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

// W·v = (1.8, -1.6), whose norm is √5.8.
TEST(SpectralNorm, IteratesFromV) {
  const TestTensor weight = Values(DType::kFloat32, {2, 2}, {3, 0, 0, -2});
  const TestTensor v = Values(DType::kFloat32, {2}, {0.6, 0.8});
  const auto vectors = RunOp("power_iteration", {&weight, &v});
  const double norm = std::sqrt(5.8), u[] = {1.8 / norm, -1.6 / norm};
  const double next = std::hypot(3 * u[0], 2 * u[1]);
  EXPECT_NEAR(vectors[0].at(0), u[0], 1e-7);
  EXPECT_NEAR(vectors[0].at(1), u[1], 1e-7);
  EXPECT_NEAR(vectors[1].at(0), 3 * u[0] / next, 1e-7);
  EXPECT_NEAR(vectors[1].at(1), -2 * u[1] / next, 1e-7);
}

// The largest singular value of a rotation times diag(3, 2, 1), as a weight of one pixel.
TEST(SpectralNorm, ComesToTheLargestSingularValue) {
  const double c = std::cos(0.7), s = std::sin(0.7);
  const TestTensor weight =
      Values(DType::kFloat64, {3, 1, 1, 3}, {3 * c, -2 * s, 0, 3 * s, 2 * c, 0, 0, 0, 1});
  TestTensor v = Values(DType::kFloat32, {1, 1, 3}, {0.5, 0.5, 0.5}), u = v;
  for (int i = 0; i < 60; ++i) {
    const auto vectors = RunOp("power_iteration", {&weight, &v});
    u = vectors[0];
    v = vectors[1];
  }
  EXPECT_NEAR(u.at(0), c, 1e-6);
  EXPECT_NEAR(u.at(1), s, 1e-6);
  EXPECT_NEAR(v.at(0), 1, 1e-6);
  const auto norm = RunOp("spectral_norm", {&weight, &u, &v});
  EXPECT_NEAR(norm[1].at(0), 3, 1e-6);
  EXPECT_EQ(norm[0].type(), weight.type());
  for (int64_t i = 0; i < weight.size(); ++i) {
    EXPECT_NEAR(norm[0].at(i), weight.at(i) / 3, 1e-6) << i;
  }
}

// The quotient does not depend on the weight's scale, so its gradient is orthogonal to the weight.
TEST(SpectralNorm, HasAGradientAcrossTheWeight) {
  const TestTensor weight = NormalValues(DType::kFloat64, {4, 6}, 1);
  const TestTensor dy = NormalValues(DType::kFloat64, {4, 6}, 2);
  const auto vectors = [&] {
    const TestTensor v = NormalValues(DType::kFloat32, {6}, 3);
    return RunOp("power_iteration", {&weight, &v});
  }();
  const auto norm = RunOp("spectral_norm", {&weight, &vectors[0], &vectors[1]});
  const TestTensor dweight =
      RunOp("spectral_norm_backward", {&weight, &vectors[0], &vectors[1], &norm[1], &dy})[0];
  double product = 0, squares = 0;
  for (int64_t i = 0; i < weight.size(); ++i) {
    product += dweight.at(i) * weight.at(i);
    squares += dweight.at(i) * dweight.at(i);
  }
  EXPECT_NEAR(product, 0, 1e-13);
  EXPECT_GT(squares, 0.1);
}

// As in PyTorch: vectors of zeros, and no quotient.
TEST(SpectralNorm, OfZerosIsNan) {
  const TestTensor weight = Values(DType::kFloat32, {2, 2}, {0, 0, 0, 0});
  const TestTensor v = Values(DType::kFloat32, {2}, {0.6, 0.8});
  const auto vectors = RunOp("power_iteration", {&weight, &v});
  for (const TestTensor& vector : vectors) {
    for (int64_t i = 0; i < vector.size(); ++i) EXPECT_EQ(vector.at(i), 0);
  }
  EXPECT_TRUE(std::isnan(RunOp("spectral_norm", {&weight, &vectors[0], &vectors[1]})[0].at(0)));
}

TEST(SpectralNorm, RefusesWhatDoesNotFit) {
  const TestTensor weight = NormalValues(DType::kFloat32, {2, 3, 4}, 1);
  const TestTensor u = NormalValues(DType::kFloat32, {2}, 1);
  const TestTensor v = NormalValues(DType::kFloat32, {3, 4}, 1);
  const TestTensor flat = NormalValues(DType::kFloat32, {12}, 1);
  const TestTensor wide = NormalValues(DType::kFloat64, {3, 4}, 1);
  for (const TestTensor* const other : {&u, &flat, &wide}) {
    ExpectInternalError([&] { RunOp("power_iteration", {&weight, other}); }, {"v must be"});
    ExpectInternalError([&] { RunOp("spectral_norm", {&weight, &u, other}); }, {"u and v must be"});
  }
  ExpectInternalError([&] { RunOp("power_iteration", {&u, &v}); }, {"weight must be floating"});
}

TEST(SpectralNorm, IsTwoOps) {
  graph::Program program("p");
  graph::Builder g(program);
  const graph::Value weight =
      g.Persistent("weight", graph::Role::kParameter, {DType::kFloat32, {2, 3, 4}});
  const graph::Value v = g.Persistent("v", graph::Role::kState, {DType::kFloat32, {3, 4}});
  SpectralNorm(g, weight, PowerIteration(g, weight, v, "next"), "y");
  graph::ExpectProgram(program, R"(program p
  tensor %weight: f32[2,3,4] parameter persistent
  tensor %v: f32[3,4] state persistent
forward
  %next: f32[2], %next.v: f32[3,4] = power_iteration(%weight, %v)
  %y: f32[2,3,4], %y.sigma: f32[] = spectral_norm(%weight, %next, %next.v)
)");
}

}  // namespace
}  // namespace plimsoll::ops
