// Joining a batch norm's gradient with that of its statistics changes no bits.
#include "ops/norms/batch_norm_fusion.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "ops/arithmetic.h"
#include "ops/norms/batch_norm.h"
#include "ops/reduce.h"
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
  const Value y = BatchNorm(g, x, statistics, weight, bias, 1e-5, relu);
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

TEST(BatchNormFusion, LeavesGradientsThatOthersAddTo) {
  const auto apart = Gradients(DType::kFloat32, 1, true, false, true);
  EXPECT_EQ(Gradients(DType::kFloat32, 1, true, true, true), apart);
}

}  // namespace
}  // namespace plimsoll::ops
