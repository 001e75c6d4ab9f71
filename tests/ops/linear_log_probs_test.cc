// Log-probabilities of targets compared with their formula, written out with whole rows of logits
// in double, and with the loss that linear_cross_entropy makes of the same rows.
#include "ops/loss/linear_log_probs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/loss/linear_cross_entropy.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

struct Problem {
  Problem(DType dtype, int64_t rows, int64_t vocabulary, int64_t width)
      : x(NormalValues(dtype, {rows, width}, 1)),
        weight(NormalValues(dtype, {vocabulary, width}, 2)),
        targets({DType::kInt32, {rows}}),
        bias(NormalValues(dtype, {vocabulary}, 4)),
        dlogp(NormalValues(graph::ComputeType(dtype), {rows}, 5)) {
    for (int64_t r = 0; r < rows; ++r) {
      targets.set(r, r % 5 == 3 ? -100 : static_cast<double>(r * 7919 % vocabulary));
    }
  }

  std::vector<TestTensor> Forward(int threads = 2) const {
    return RunOp("linear_log_probs", {&x, &weight, &targets, &bias}, {}, threads);
  }
  std::vector<TestTensor> Backward(const TestTensor& lse, int threads = 2) const {
    return RunOp("linear_log_probs_backward",
                 {&x, &weight, &targets, &lse, &dlogp, nullptr, &bias, nullptr}, {}, threads,
                 {true, true, true});
  }

  TestTensor x, weight, targets, bias, dlogp;
};

struct Reference {
  std::vector<double> logp, dx, dweight, dbias;
};

Reference Naive(const Problem& p) {
  const int64_t rows = p.x.type().shape.dim(0), width = p.x.type().shape.dim(1);
  const int64_t vocabulary = p.weight.type().shape.dim(0);
  Reference r;
  r.logp.assign(rows, 0);
  r.dx.assign(rows * width, 0);
  r.dweight.assign(vocabulary * width, 0);
  r.dbias.assign(vocabulary, 0);
  std::vector<double> logits(vocabulary);
  for (int64_t i = 0; i < rows; ++i) {
    const auto target = static_cast<int64_t>(p.targets.at(i));
    if (target < 0) continue;
    double total = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      logits[v] = p.bias.at(v);
      for (int64_t d = 0; d < width; ++d) {
        logits[v] += p.x.at(i * width + d) * p.weight.at(v * width + d);
      }
      total += std::exp(logits[v]);
    }
    r.logp[i] = logits[target] - std::log(total);
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double g = p.dlogp.at(i) * ((v == target ? 1 : 0) - std::exp(logits[v]) / total);
      r.dbias[v] += g;
      for (int64_t d = 0; d < width; ++d) {
        r.dx[i * width + d] += g * p.weight.at(v * width + d);
        r.dweight[v * width + d] += g * p.x.at(i * width + d);
      }
    }
  }
  return r;
}

void ExpectAgreement(const Problem& p, double tolerance, double gradient_tolerance) {
  const Reference reference = Naive(p);
  const std::vector<TestTensor> forward = p.Forward();
  const std::vector<TestTensor> backward = p.Backward(forward[1]);
  ExpectNear(forward[0], reference.logp, tolerance, "logp");
  ExpectNear(backward[0], reference.dx, gradient_tolerance, "dx");
  ExpectNear(backward[1], reference.dweight, gradient_tolerance, "dweight");
  ExpectNear(backward[2], reference.dbias, gradient_tolerance, "dbias");
}

TEST(LinearLogProbs, AgreeWithTheirFormula) {
  ExpectAgreement(Problem(DType::kFloat64, 37, 61, 9), 1e-12, 1e-12);
  ExpectAgreement(Problem(DType::kFloat32, 150, 5000, 20), 1e-5, 1e-5);
  ExpectAgreement(Problem(DType::kBFloat16, 37, 61, 9), 1e-5, 0x1p-6);
}

TEST(LinearLogProbs, AgreeOverSeveralChunks) {
  Problem p(DType::kFloat32, 130, 210000, 2);
  // The reference is slow: only a few rows count, on both sides of the boundary.
  for (int64_t r = 0; r < 130; ++r) {
    if (r % 32 != 0 && r < 127) p.targets.set(r, -100);
  }
  ASSERT_EQ(LossChunkRows(130, 210000, 4), 80);
  ExpectAgreement(p, 1e-5, 1e-5);
}

TEST(LinearLogProbs, AddUpToTheLossOfTheSameTargets) {
  const Problem p(DType::kFloat64, 37, 61, 9);
  const TestTensor scale = Values(DType::kFloat32, {}, {1});
  const std::vector<TestTensor> forward = p.Forward();
  const std::vector<TestTensor> loss =
      RunOp("linear_cross_entropy", {&p.x, &p.weight, &p.targets, &scale, &p.bias});
  double sum = 0;
  for (int64_t r = 0; r < 37; ++r) sum -= forward[0].at(r);
  EXPECT_NEAR(sum, loss[0].at(0), 1e-12 * loss[0].at(0));
  EXPECT_TRUE(SameBits(forward[1], loss[1])) << "lse";
  EXPECT_EQ(forward[0].at(3), 0) << "an ignored target";
}

TEST(LinearLogProbs, HaveTheSameBitsWithAnyNumberOfThreads) {
  const Problem p(DType::kFloat32, 150, 5000, 20);
  const std::vector<TestTensor> forward = p.Forward(1), threads = p.Forward(3);
  EXPECT_TRUE(SameBits(forward[0], threads[0]));
  const std::vector<TestTensor> one = p.Backward(forward[1], 1), three = p.Backward(forward[1], 3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(SameBits(one[i], three[i])) << i;
}

}  // namespace
}  // namespace plimsoll::ops
