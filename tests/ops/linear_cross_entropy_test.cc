// The fused loss compared with its formula, written out with whole rows of logits in double, and
// its three ops compared with each other.
#include "ops/loss/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

struct Problem {
  Problem(DType dtype, int64_t rows, int64_t vocabulary, int64_t width, bool with_bias = false)
      : x(NormalValues(dtype, {rows, width}, 1)),
        weight(NormalValues(dtype, {vocabulary, width}, 2)),
        targets({DType::kInt32, {rows}}),
        scale(Values(DType::kFloat32, {}, {0.125})),
        dloss(Values(graph::ComputeType(dtype), {}, {1})),
        acc(NormalValues(graph::ComputeType(dtype), {vocabulary, width}, 3)),
        biases(NormalValues(dtype, {vocabulary}, 4)),
        bias(with_bias ? &biases : nullptr) {
    for (int64_t r = 0; r < rows; ++r) {
      targets.set(r, r % 5 == 3 ? -100 : static_cast<double>(r * 7919 % vocabulary));
    }
  }

  std::vector<TestTensor> Forward(int threads = 2) const {
    return RunOp("linear_cross_entropy", {&x, &weight, &targets, &scale, bias}, attributes(),
                 threads);
  }
  std::vector<TestTensor> Backward(const TestTensor& lse, const TestTensor* given,
                                   int threads = 2) const {
    return RunOp("linear_cross_entropy_backward",
                 {&x, &weight, &targets, &scale, &lse, &dloss, given, bias, nullptr}, attributes(),
                 threads, {true, true, bias != nullptr});
  }
  std::vector<TestTensor> Train(const TestTensor* given, int threads = 2) const {
    return RunOp("linear_cross_entropy_train",
                 {&x, &weight, &targets, &scale, &dloss, given, bias, nullptr}, attributes(),
                 threads, {true, true, true, bias != nullptr});
  }

  graph::Attributes attributes() const {
    return cap > 0 ? graph::Attributes{{"softcap", cap}} : graph::Attributes();
  }
  Problem Capped(double at) const {
    Problem capped = *this;
    if (bias != nullptr) capped.bias = &capped.biases;
    capped.cap = at;
    return capped;
  }

  TestTensor x, weight, targets, scale, dloss, acc, biases;
  const TestTensor* bias;
  double cap = 0;  // of logits; 0: none
};

struct Reference {
  double loss = 0;
  std::vector<double> dx, dweight, dbias;
};

Reference Naive(const Problem& p) {
  const int64_t rows = p.x.type().shape.dim(0);
  const int64_t width = p.x.type().shape.dim(1);
  const int64_t vocabulary = p.weight.type().shape.dim(0);
  Reference r;
  r.dx.assign(rows * width, 0);
  r.dweight.assign(vocabulary * width, 0);
  r.dbias.assign(vocabulary, 0);
  std::vector<double> logits(vocabulary), slopes(vocabulary, 1);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t target = static_cast<int64_t>(p.targets.at(i));
    if (target < 0) continue;
    double largest = -1e300, total = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      logits[v] = p.bias == nullptr ? 0 : p.bias->at(v);
      for (int64_t d = 0; d < width; ++d) {
        logits[v] += p.x.at(i * width + d) * p.weight.at(v * width + d);
      }
      if (p.cap > 0) {
        const double t = std::tanh(logits[v] / p.cap);
        logits[v] = p.cap * t;
        slopes[v] = 1 - t * t;
      }
      largest = std::max(largest, logits[v]);
    }
    for (int64_t v = 0; v < vocabulary; ++v) total += std::exp(logits[v] - largest);
    const double lse = largest + std::log(total);
    r.loss += p.scale.at(0) * (lse - logits[target]);
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double g =
          p.scale.at(0) * (std::exp(logits[v] - lse) - (v == target ? 1 : 0)) * slopes[v];
      r.dbias[v] += g;
      for (int64_t d = 0; d < width; ++d) {
        r.dx[i * width + d] += g * p.weight.at(v * width + d);
        r.dweight[v * width + d] += g * p.x.at(i * width + d);
      }
    }
  }
  return r;
}

// `gradient_tolerance` is larger where the logits' gradients are rounded.
void ExpectAgreement(const Problem& p, double tolerance, double gradient_tolerance = 0) {
  gradient_tolerance = std::max(tolerance, gradient_tolerance);
  const Reference reference = Naive(p);
  const std::vector<TestTensor> forward = p.Forward();
  const std::vector<TestTensor> backward = p.Backward(forward[1], nullptr);
  const std::vector<TestTensor> train = p.Train(nullptr);
  EXPECT_NEAR(forward[0].at(0), reference.loss, tolerance * (1 + reference.loss));
  ExpectNear(backward[0], reference.dx, gradient_tolerance, "dx");
  ExpectNear(backward[1], reference.dweight, gradient_tolerance, "dweight");
  EXPECT_TRUE(SameBits(train[0], forward[0]));
  EXPECT_TRUE(SameBits(train[1], backward[0]));
  EXPECT_TRUE(SameBits(train[2], backward[1]));
  if (p.bias == nullptr) return;
  ExpectNear(backward[2], reference.dbias, gradient_tolerance, "dbias");
  EXPECT_TRUE(SameBits(train[3], backward[2]));
}

TEST(LinearCrossEntropy, AgreesWithItsFormula) {
  ExpectAgreement(Problem(DType::kFloat64, 37, 61, 9), 1e-12);
  ExpectAgreement(Problem(DType::kFloat32, 37, 61, 9), 1e-5);
  ExpectAgreement(Problem(DType::kFloat32, 150, 5000, 20), 1e-5);
  ExpectAgreement(Problem(DType::kFloat64, 37, 61, 9, true), 1e-12);
  ExpectAgreement(Problem(DType::kFloat32, 150, 5000, 20, true), 1e-5);
  ExpectAgreement(Problem(DType::kBFloat16, 37, 61, 9, true), 1e-5, 0x1p-8);
}

TEST(LinearCrossEntropy, AgreesWithItsFormulaUnderASoftCap) {
  ExpectAgreement(Problem(DType::kFloat64, 37, 61, 9).Capped(3), 1e-12);
  ExpectAgreement(Problem(DType::kFloat64, 37, 61, 9, true).Capped(0.5), 1e-12);
  ExpectAgreement(Problem(DType::kFloat32, 150, 5000, 20, true).Capped(2), 1e-5);
  ExpectAgreement(Problem(DType::kBFloat16, 37, 61, 9, true).Capped(30), 1e-5, 0x1p-8);
}

// Logits and softmax are float32, so the loss is as precise as in float32.
TEST(LinearCrossEntropy, AgreesWithItsFormulaIn16Bits) {
  ExpectAgreement(Problem(DType::kBFloat16, 37, 61, 9), 1e-5, 0x1p-8);
  ExpectAgreement(Problem(DType::kFloat16, 37, 61, 9), 1e-5, 0x1p-11);
  ExpectAgreement(Problem(DType::kBFloat16, 150, 5000, 20), 1e-5, 0x1p-8);
  ExpectAgreement(Problem(DType::kFloat16, 150, 5000, 20), 1e-5, 0x1p-11);
}

TEST(LinearCrossEntropy, AgreesOverSeveralChunks) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Problem p(dtype, 130, 210000, 2, /*with_bias=*/true);
    // The reference is slow: only a few rows count, on both sides of the boundary.
    for (int64_t r = 0; r < 130; ++r) {
      if (r % 32 != 0 && r < 127) p.targets.set(r, -100);
    }
    ASSERT_EQ(LossChunkRows(130, 210000, 4), 80);
    ExpectAgreement(p, 1e-5, dtype == DType::kBFloat16 ? 0x1p-8 : 0);
  }
}

TEST(LinearCrossEntropy, KeepsLossAndSumsInFloat32) {
  const Problem p(DType::kBFloat16, 20, 30, 7);
  const std::vector<TestTensor> forward = p.Forward();
  EXPECT_EQ(forward[0].type().dtype, DType::kFloat32);
  EXPECT_EQ(forward[1].type().dtype, DType::kFloat32);
  const std::vector<TestTensor> train = p.Train(&p.acc);
  EXPECT_EQ(train[0].type().dtype, DType::kFloat32);
  EXPECT_EQ(train[1].type().dtype, DType::kBFloat16);
  EXPECT_EQ(train[2].type().dtype, DType::kFloat32);
  const std::vector<TestTensor> fresh = p.Train(nullptr);
  for (int64_t i = 0; i < p.acc.size(); ++i) {
    ASSERT_NEAR(train[2].at(i), p.acc.at(i) + fresh[2].at(i), 1e-6);
  }
}

// As on a GPU, the operand of the two gradient products has the stored type.
TEST(LinearCrossEntropy, RoundsTheGradientOfTheLogits) {
  const auto weight_gradient = [](DType dtype, double dloss) {
    Problem p(dtype, 1, 2, 1);
    for (int64_t v : {0, 1}) p.weight.set(v, 0);  // both words are equally likely
    p.x.set(0, 1);
    p.targets.set(0, 0);
    p.scale.set(0, 1);
    p.dloss.set(0, dloss);
    return p.Train(nullptr)[2].at(1);
  };
  EXPECT_EQ(weight_gradient(DType::kBFloat16, 1 + 0x1p-9), 0.5);
  EXPECT_EQ(weight_gradient(DType::kFloat16, 1 + 0x1p-12), 0.5);
  EXPECT_NEAR(weight_gradient(DType::kFloat16, 1 + 0x1p-9), 0.5 + 0x1p-10, 1e-9);
  EXPECT_EQ(weight_gradient(DType::kFloat16, 1e6), INFINITY);  // what loss scaling looks for
  EXPECT_EQ(weight_gradient(DType::kFloat16, 1e-8), 0);
}

TEST(LinearCrossEntropy, ChunksFollowTheVocabulary) {
  EXPECT_EQ(LossChunkRows(4096, 50304, 4), 512);
  EXPECT_EQ(LossChunkRows(1100, 50304, 4), 368);  // three about equal ones
  EXPECT_EQ(LossChunkRows(100, 50304, 4), 100);
  EXPECT_EQ(LossChunkRows(4096, 256, 4), 4096);
  EXPECT_EQ(LossChunkRows(4096, 1000000, 4), 128);
}

TEST(LinearCrossEntropy, AddsToTheGivenGradient) {
  const Problem p(DType::kFloat64, 20, 30, 7);
  const std::vector<TestTensor> fresh = p.Train(nullptr);
  const std::vector<TestTensor> added = p.Train(&p.acc);
  const std::vector<TestTensor> pair = p.Backward(p.Forward()[1], &p.acc);
  EXPECT_TRUE(SameBits(added[2], pair[1]));
  for (int64_t i = 0; i < p.acc.size(); ++i) {
    ASSERT_NEAR(added[2].at(i), p.acc.at(i) + fresh[2].at(i), 1e-13);
  }
  // In place.
  TestTensor shared = NormalValues(DType::kFloat64, p.acc.type().shape, 3);
  OpRunner runner("linear_cross_entropy_train",
                  {&p.x, &p.weight, &p.targets, &p.scale, &p.dloss, &shared}, {}, 2);
  runner.Share(2, shared);
  runner.Run();
  EXPECT_TRUE(SameBits(shared, added[2]));
}

TEST(LinearCrossEntropy, LeavesOutGradientsThatNobodyWants) {
  const Problem p(DType::kFloat32, 20, 30, 7);
  const std::vector<TestTensor> all = p.Train(nullptr);
  const std::vector<const TestTensor*> inputs = {&p.x,     &p.weight, &p.targets,
                                                 &p.scale, &p.dloss,  nullptr};
  const std::string op = "linear_cross_entropy_train";
  EXPECT_TRUE(SameBits(RunOp(op, inputs, {}, 2, {true, true, false})[1], all[1]));
  EXPECT_TRUE(SameBits(RunOp(op, inputs, {}, 2, {true, false, true})[2], all[2]));
}

TEST(LinearCrossEntropy, BitsDoNotDependOnThreads) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    const Problem p(dtype, 300, 3000, 40, /*with_bias=*/true);
    const std::vector<TestTensor> one = p.Train(nullptr, 1);
    const std::vector<TestTensor> three = p.Train(nullptr, 3);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(SameBits(one[i], three[i])) << i;
  }
}

TEST(LinearCrossEntropy, SurvivesLargeLogits) {
  Problem p(DType::kFloat32, 4, 50, 3);
  for (int64_t i = 0; i < p.x.size(); ++i) p.x.set(i, 1000 * p.x.at(i));
  const std::vector<TestTensor> got = p.Train(nullptr);
  EXPECT_TRUE(std::isfinite(got[0].at(0)));
  for (int64_t i = 0; i < got[1].size(); ++i) ASSERT_TRUE(std::isfinite(got[1].at(i)));
}

TEST(LinearCrossEntropy, RefusesATargetOutsideTheVocabulary) {
  Problem p(DType::kFloat32, 4, 50, 3);
  p.targets.set(2, 50);
  EXPECT_THROW(p.Forward(), InternalError);
}

}  // namespace
}  // namespace plimsoll::ops
