// Joining batch norms with what is around them changes no bits.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/fusions.h"
#include "ops/norms/batch_norm.h"
#include "ops/reductions/reduce.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Role;
using graph::Value;

// The gradients of a norm of x[6,5,8] in groups, fused or not.
std::vector<std::vector<double>> Gradients(DType dtype, int64_t groups, bool relu, bool fused,
                                           bool read_elsewhere = false) {
  graph::Program program("norm");
  graph::Builder g(program);
  const Value parameter = g.Persistent("x", Role::kParameter, {dtype, {6, 5, 8}});
  const Value x = Scale(g, parameter, 2);
  const Value weight = g.Persistent("weight", Role::kParameter, {DType::kFloat32, {8}});
  const Value bias = g.Persistent("bias", Role::kParameter, {DType::kFloat32, {8}});
  const Value dy = g.Persistent("dy", Role::kInput, {dtype, {6, 5, 8}});
  const BatchStatistics statistics = BatchNormStatistics(g, x, groups);
  const Value y = BatchNorm(g, x, statistics, weight, bias, 1e-5, {.relu = relu});
  Value loss = Sum(g, Mul(g, y, dy), "part");
  if (read_elsewhere) loss = Add(g, loss, Sum(g, statistics.mean));
  Add(g, loss, loss, "loss");
  graph::Autodiff({.loss = "loss"}).Run(program);
  EXPECT_EQ(fused ? FuseBatchNormGradients(program) : 0, fused && !read_elsewhere ? 1 : 0);
  ThreadPool pool(2);
  Interpreter run(program, pool);
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0.5, 2);
  for (const char* name : {"x", "weight", "bias", "dy"}) {
    const graph::Shape& shape = program.tensor(program.Require(name)).type.shape;
    std::vector<double> values(static_cast<size_t>(shape.elements()));
    for (double& value : values) value = normal(random);
    run.Set(name, values);
  }
  run.Run();
  return {run.Get("x.grad"), run.Get("weight.grad"), run.Get("bias.grad")};
}

TEST(BatchNormFusion, ChangesNoBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t groups : {1, 3}) {
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(std::string(graph::Name(dtype)) + (relu ? " relu" : ""));
        const auto apart = Gradients(dtype, groups, relu, false);
        EXPECT_EQ(Gradients(dtype, groups, relu, true), apart);
        double largest = 0;
        for (const double value : apart[0]) largest = std::max(largest, std::abs(value));
        EXPECT_GT(largest, 0.1);
      }
    }
  }
}

// The end of a residual block, fused or not; the gradients are those that autodiff made before.
std::vector<std::vector<double>> Block(DType dtype, bool relu, bool fused, bool read_elsewhere,
                                       int64_t channels = 8) {
  graph::Program program("block");
  graph::Builder g(program);
  const graph::Shape shape = {6, 5, channels};
  const Value x = Scale(g, g.Persistent("x", Role::kParameter, {dtype, shape}), 2);
  const Value shortcut = Scale(g, g.Persistent("shortcut", Role::kParameter, {dtype, shape}), 0.5);
  const Value weight = g.Persistent("weight", Role::kParameter, {DType::kFloat32, {channels}});
  const Value bias = g.Persistent("bias", Role::kParameter, {DType::kFloat32, {channels}});
  const Value normed = BatchNorm(g, x, BatchNormStatistics(g, x), weight, bias, 1e-5);
  const Value sum = Add(g, shortcut, normed);
  const Value y = relu ? Relu(g, sum, "y") : sum;
  Value loss = Sum(g, Mul(g, y, y), "part");
  if (read_elsewhere) loss = Add(g, loss, Sum(g, normed));
  Add(g, loss, loss, "loss");
  graph::Autodiff({.loss = "loss"}).Run(program);
  if (fused) {
    EXPECT_EQ(FuseBatchNormResiduals(program), read_elsewhere ? 0 : relu ? 2 : 1);
    EXPECT_EQ(FuseBatchNormGradients(program), 1);
    EXPECT_EQ(FuseBatchNormResidualGradients(program), relu && !read_elsewhere ? 1 : 0);
  }
  ThreadPool pool(2);
  Interpreter run(program, pool);
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0.5, 2);
  for (const char* name : {"x", "shortcut", "weight", "bias"}) {
    std::vector<double> values(
        static_cast<size_t>(program.tensor(program.Require(name)).type.shape.elements()));
    for (double& value : values) value = normal(random);
    run.Set(name, values);
  }
  run.Run();
  return {run.Get("loss"), run.Get("x.grad"), run.Get("shortcut.grad"), run.Get("weight.grad")};
}

TEST(BatchNormFusion, OfResidualsChangesNoBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool relu : {false, true}) {
      for (const int64_t channels : {8, 13}) {
        SCOPED_TRACE(std::string(graph::Name(dtype)) + (relu ? " relu" : ""));
        const auto apart = Block(dtype, relu, false, false, channels);
        EXPECT_EQ(Block(dtype, relu, true, false, channels), apart);
        EXPECT_GT(std::abs(apart[0][0]), 1);
      }
    }
  }
}

const std::string kTensors = R"(program p
  tensor %x: f16[2,3,12] input persistent
  tensor %shortcut: f16[2,3,12] input persistent
  tensor %dy: f16[2,3,12] input persistent
  tensor %mean: f32[1,12] input persistent
  tensor %variance: f32[1,12] input persistent
  tensor %weight: f32[12] parameter persistent
  tensor %bias: f32[12] parameter persistent
)";

// Where nobody asks for them there are no bits.
TEST(BatchNormFusion, TakesUpAResidual) {
  graph::ExpectFused(FuseBatchNormResiduals, 2, kTensors + R"(forward
  %n: f16[2,3,12] = batch_norm(%x, %mean, %variance, %weight, %bias) {eps=0.001}
  %s: f16[2,3,12] = add(%shortcut, %n)
  %y: f16[2,3,12] = relu(%s)
  %z: f16[2,3,12] = scale(%y) {factor=2.0}
)",
                     kTensors + R"(forward
  %y: f16[2,3,12], _ = batch_norm(%x, %mean, %variance, %weight, %bias, %shortcut) {eps=0.001, relu=true} !fuse
  %z: f16[2,3,12] = scale(%y) {factor=2.0}
)");
}

const std::string kGradients = R"(backward
  %d: f16[2,3,12] = relu_backward(%y, %dy)
  %dx: f16[2,3,12], _, _, %dw: f32[12], %db: f32[12] = batch_norm_backward(%d, %x, %mean, %variance, %weight, _, _, _) {eps=0.001, through_statistics=true}
)";

TEST(BatchNormFusion, GradientsReadBitsInPlaceOfTheResult) {
  graph::ExpectFused(FuseBatchNormResidualGradients, 1, kTensors + R"(forward
  %y: f16[2,3,12], _ = batch_norm(%x, %mean, %variance, %weight, %bias, %shortcut) {eps=0.001, relu=true}
)" + kGradients,
                     kTensors + R"(forward
  %y: f16[2,3,12], %y.positive: u8[2,3,2] = batch_norm(%x, %mean, %variance, %weight, %bias, %shortcut) {eps=0.001, relu=true}
backward
  %d: f16[2,3,12], %dx: f16[2,3,12], %dw: f32[12], %db: f32[12] = batch_norm_residual_backward(%dy, %y.positive, %x, %mean, %variance, %weight, _, _, _) {eps=0.001} !fuse
)");
}

TEST(BatchNormFusion, LeavesGradientsOfWhatNoNormMade) {
  const std::string text = kTensors + R"(forward
  %n: f16[2,3,12] = batch_norm(%x, %mean, %variance, %weight, %bias) {eps=0.001}
  %s: f16[2,3,12] = add(%shortcut, %n)
  %y: f16[2,3,12] = relu(%s)
)" + kGradients;
  graph::Program program = graph::Parse(text);
  EXPECT_EQ(FuseBatchNormResidualGradients(program), 0);
  graph::ExpectProgram(program, text);
}

TEST(BatchNormFusion, LeavesNormsThatOthersRead) {
  EXPECT_EQ(Block(DType::kFloat32, true, true, true), Block(DType::kFloat32, true, false, true));
}

TEST(BatchNormFusion, LeavesGradientsThatOthersAddTo) {
  const auto apart = Gradients(DType::kFloat32, 1, true, false, true);
  EXPECT_EQ(Gradients(DType::kFloat32, 1, true, true, true), apart);
}

}  // namespace
}  // namespace plimsoll::ops
