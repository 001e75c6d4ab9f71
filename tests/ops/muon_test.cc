// Muon's ops: momentum in each form of storage, skipped steps, and Newton-Schulz next to its
// formula in double.
#include "ops/optimizer/muon.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Program;
using graph::Role;
using graph::Value;

constexpr int64_t kElements = 700;  // two blocks and a part
constexpr double kMu = 0.95;

Attributes MomentumAttributes(bool nesterov) {
  return {{"momentum", kMu}, {"nesterov", nesterov}, {"key", int64_t{7}}};
}

TestTensor Gradient(int step) { return NormalValues(DType::kFloat32, {kElements}, 10 + step); }

TEST(Muon, MovesTheMomentum) {
  for (const bool nesterov : {true, false}) {
    const TestTensor g = Gradient(0), clip = Values(DType::kFloat32, {}, {0.5});
    const TestTensor buffer = NormalValues(DType::kFloat32, {kElements}, 3);
    std::vector<double> moved, u;
    for (int64_t i = 0; i < kElements; ++i) {
      moved.push_back(kMu * buffer.at(i) + 0.5 * g.at(i));
      u.push_back(nesterov ? 0.5 * g.at(i) + kMu * moved.back() : moved.back());
    }
    const auto got = RunOp("muon_momentum", {&g, &buffer, &clip}, MomentumAttributes(nesterov), 2,
                           {true, true, false});
    ExpectNear(got[0], u, 1e-6, "u");
    ExpectNear(got[1], moved, 1e-6, "buffer");
  }
}

// What is stored in fewer bits follows the float32 buffer; u is made before it is rounded.
TEST(Muon, StoresTheMomentumInFewerBits) {
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 1});
  TestTensor whole({DType::kFloat32, {kElements}}), rounded({DType::kBFloat16, {kElements}});
  TestTensor codes({DType::kUInt8, {kElements}});
  TestTensor scales({DType::kFloat32, ScalesShape({kElements})});
  for (const TestTensor* tensor : {&whole, &rounded, &codes, &scales}) {
    std::memset(tensor->data(), 0, static_cast<size_t>(tensor->type().bytes()));
  }
  for (int step = 0; step < 5; ++step) {
    const TestTensor g = Gradient(step);
    const auto want =
        RunOp("muon_momentum", {&g, &whole}, MomentumAttributes(true), 2, {true, true, false});
    const auto in_16 = RunOp("muon_momentum", {&g, &rounded, nullptr, nullptr, nullptr, &rng},
                             MomentumAttributes(true), 2, {true, true, false});
    const auto in_8 = RunOp("muon_momentum", {&g, &codes, nullptr, nullptr, &scales},
                            MomentumAttributes(true), 2);
    if (step == 0) {  // nothing has been rounded before
      ExpectSameBits(in_16[0], want[0]);
      ExpectSameBits(in_8[0], want[0]);
    }
    for (int64_t i = 0; i < kElements; ++i) {
      ASSERT_NEAR(in_16[0].at(i), want[0].at(i), 0.1) << step;
      ASSERT_NEAR(in_8[0].at(i), want[0].at(i), 0.3) << step;
    }
    whole = want[1];
    rounded = in_16[1];
    codes = in_8[1];
    scales = in_8[2];
  }
}

TEST(Muon, ASkippedStepLeavesTheMomentum) {
  TestTensor g = Gradient(0);
  for (int64_t i = 0; i < kElements; ++i) g.set(i, NAN);
  const TestTensor skip = Values(DType::kInt32, {}, {0});
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 1});
  const TestTensor buffer = NormalValues(DType::kBFloat16, {kElements}, 3);
  const auto got = RunOp("muon_momentum", {&g, &buffer, nullptr, &skip, nullptr, &rng},
                         MomentumAttributes(true), 2, {true, true, false});
  ExpectSameBits(got[1], buffer);
  for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(got[0].at(i), 0);
}

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix InDouble(Matrix x, int64_t steps) {
  x /= std::max(x.norm(), 1e-7);
  for (int64_t step = 0; step < steps; ++step) {
    const Matrix gram = x * x.transpose();
    x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram * gram) * x;
  }
  return x;
}

Matrix Normal(int64_t rows, int64_t columns) {
  const TestTensor values = NormalValues(DType::kFloat64, {rows, columns}, 5);
  return Eigen::Map<const Matrix>(values.as<double>(), rows, columns);
}

Matrix Orthogonal(const Matrix& u, DType dtype, const NewtonSchulzOptions& options) {
  ThreadPool pool(2);
  Program program;
  graph::Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {dtype, {u.rows(), u.cols()}});
  const Value y = NewtonSchulz(g, x, options);
  Interpreter interpreter(program, pool);
  interpreter.Set(x, {u.data(), static_cast<size_t>(u.size())});
  interpreter.Run();
  const std::vector<double> values = interpreter.Get(y);
  return Eigen::Map<const Matrix>(values.data(), u.rows(), u.cols());
}

TEST(Muon, NewtonSchulzIsItsFormula) {
  for (const auto& [rows, columns] : {std::pair(12, 30), std::pair(30, 12), std::pair(17, 17)}) {
    const Matrix u = Normal(rows, columns);
    // Tall matrices have other products, which give what their transposes would.
    const Matrix wide = rows > columns ? Matrix(u.transpose()) : u;
    for (const int64_t steps : {1, 5}) {
      Matrix want = InDouble(wide, steps);
      if (rows > columns) want = Matrix(want.transpose());
      const Matrix doubles =
          Orthogonal(u, DType::kFloat64, {.steps = steps, .dtype = DType::kFloat64});
      EXPECT_LT((doubles - want).cwiseAbs().maxCoeff(), 1e-6);  // its norm is a float
      const Matrix floats = Orthogonal(u, DType::kFloat32, {.steps = steps});
      EXPECT_LT((floats - want).cwiseAbs().maxCoeff(), 1e-5);
      const Matrix tripled = Orthogonal(u, DType::kFloat32, {.steps = steps, .factor = 3});
      EXPECT_LT((tripled - 3 * want).cwiseAbs().maxCoeff(), 3e-5);
    }
  }
}

TEST(Muon, SingularValuesComeNearOne) {
  const Matrix u = Normal(24, 60);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Matrix made = Orthogonal(u, DType::kFloat32, {.dtype = dtype});
    const auto values = Eigen::JacobiSVD<Matrix>(made).singularValues();
    EXPECT_GT(values.minCoeff(), 0.6);
    EXPECT_LT(values.maxCoeff(), 1.3);
  }
}

TEST(Muon, ZeroStaysZero) {
  EXPECT_EQ(Orthogonal(Matrix::Zero(4, 6), DType::kFloat32, {}).cwiseAbs().maxCoeff(), 0);
}

TEST(Muon, StacksRows) {
  const TestTensor a = Values(DType::kFloat32, {1, 2}, {1, 2});
  const TestTensor b = Values(DType::kFloat32, {2, 2}, {3, 4, 5, 6});
  const auto got = RunOp("stack_rows", {&a, &b});
  EXPECT_EQ(got[0].type().shape, (graph::Shape{3, 2}));
  ExpectNear(got[0], {1, 2, 3, 4, 5, 6}, 0, "y");
}

TEST(Muon, UpdatesAPersistentBuffer) {
  Program program;
  graph::Builder g(program);
  const Value gradient = g.Persistent("g", Role::kInput, {DType::kFloat32, {4, 4}});
  graph::Tensor temporary;
  temporary.name = "buffer";
  temporary.type = {DType::kFloat32, {4, 4}};
  const Value buffer = program.AddTensor(temporary);
  EXPECT_THROW(MuonMomentum(g, gradient, {buffer}, {}, {}, "u"), InternalError);
}

}  // namespace
}  // namespace plimsoll::ops
