// Log-probabilities of targets on the GPU: their lse and gradients have the bits of
// linear_cross_entropy's where all rows have its factor, and agree with the CPU where each row has
// its own. For every row length with a path of its own, and several chunks.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpu/libraries.h"
#include "ops/loss/linear_cross_entropy.h"
#include "tests/ops/cuda_linear_loss.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr double kScale = 0.125, kDloss = 3;

struct Problem : LinearLossOperands {
  Problem(DType dtype, int64_t rows, int64_t vocabulary, int64_t width)
      : LinearLossOperands(dtype, rows, vocabulary, width),
        // As large as loss scaling makes them: fp16 has few bits for what is near 0.
        dlogp(NormalValues(DType::kFloat32, {rows}, 5, 256)) {}

  std::vector<TestTensor> Forward() {
    return RunCudaOp("linear_log_probs", {&x, &weight, &targets}, libraries);
  }
  std::vector<TestTensor> Backward(const TestTensor& lse, const TestTensor& by_row) {
    return RunCudaOp("linear_log_probs_backward", {&x, &weight, &targets, &lse, &by_row, nullptr},
                     libraries);
  }

  TestTensor dlogp;
};

// With the same dlogp for all rows. A product of the two factors is exact.
void ExpectBitsOfTheLoss(Problem& p) {
  const TestTensor scale = Values(DType::kFloat32, {}, {kScale});
  const TestTensor dloss = Values(DType::kFloat32, {}, {kDloss});
  const std::vector<TestTensor> loss =
      RunCudaOp("linear_cross_entropy", {&p.x, &p.weight, &p.targets, &scale}, p.libraries);
  const std::vector<TestTensor> gradients =
      RunCudaOp("linear_cross_entropy_backward",
                {&p.x, &p.weight, &p.targets, &scale, &loss[1], &dloss, nullptr}, p.libraries);
  TestTensor same({DType::kFloat32, p.targets.type().shape});
  for (int64_t r = 0; r < same.size(); ++r) same.set(r, -kScale * kDloss);
  const std::vector<TestTensor> forward = p.Forward();
  const std::vector<TestTensor> backward = p.Backward(forward[1], same);
  EXPECT_TRUE(SameBits(forward[1], loss[1])) << "lse";
  EXPECT_TRUE(SameBits(backward[0], gradients[0])) << "dx";
  EXPECT_TRUE(SameBits(backward[1], gradients[1])) << "dweight";
  double sum = 0;
  for (int64_t r = 0; r < forward[0].size(); ++r) sum -= forward[0].at(r);
  EXPECT_NEAR(kScale * sum, loss[0].at(0), 1e-6 * loss[0].at(0));
}

// In float32, on the same, rounded operands.
void ExpectAgreement(Problem& p, double tolerance) {
  const TestTensor x = InFloat32(p.x), weight = InFloat32(p.weight);
  const std::vector<TestTensor> cpu = RunOp("linear_log_probs", {&x, &weight, &p.targets});
  const std::vector<TestTensor> gradients =
      RunOp("linear_log_probs_backward", {&x, &weight, &p.targets, &cpu[1], &p.dlogp, nullptr});
  const std::vector<TestTensor> forward = p.Forward();
  const std::vector<TestTensor> backward = p.Backward(forward[1], p.dlogp);
  ExpectWithin(forward[0], cpu[0], tolerance, "logp");
  ExpectWithin(forward[1], cpu[1], tolerance, "lse");
  ExpectWithin(backward[0], gradients[0], tolerance, "dx");
  ExpectWithin(backward[1], gradients[1], tolerance, "dweight");
  for (int64_t r = 0; r < p.targets.size(); ++r) {
    if (p.targets.at(r) >= 0) continue;
    ASSERT_TRUE(forward[0].at(r) == 0 && !std::signbit(forward[0].at(r))) << r;
  }
}

class CudaLogProbs : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA }

  static void Expect(Problem&& p) {
    const DType dtype = GetParam();
    const int64_t vocabulary = p.weight.type().shape.dim(0), width = p.x.type().shape.dim(1);
    SCOPED_TRACE(std::to_string(p.targets.size()) + " rows, vocabulary " +
                 std::to_string(vocabulary) + ", width " + std::to_string(width));
    ExpectBitsOfTheLoss(p);
    ExpectAgreement(p, LossTolerance(dtype, vocabulary, width));
  }
};

TEST_P(CudaLogProbs, AgreeWithTheLossAndTheCpu) {
  Expect(Problem(GetParam(), 37, 61, 9));
  Expect(Problem(GetParam(), 37, 61, 16));
  Expect(Problem(GetParam(), 300, 3000, 40));
  Expect(Problem(GetParam(), 150, 50257, 16));
  Expect(Problem(GetParam(), 150, 50257, 9));
  Expect(Problem(GetParam(), 20, 100001, 7));
  Expect(Problem(GetParam(), 5, 300001, 7));
  Expect(Problem(GetParam(), 3, 1000003, 7));
}

TEST_P(CudaLogProbs, AgreeOverSeveralChunks) {
  constexpr int64_t kRows = 1100, kVocabulary = 210000;
  for (const int64_t width : {8, 7}) {
    Problem p(GetParam(), kRows, kVocabulary, width);
    const int64_t chunk = LayOutCudaLoss(kRows, kVocabulary, width, GetParam()).chunk;
    ASSERT_LT(chunk, kRows);
    // Only a few rows count, on both sides of the boundary.
    for (int64_t r = 0; r < kRows - 1; ++r) {
      if (r % 64 != 0 && r != chunk - 1) p.targets.set(r, -100);
    }
    Expect(std::move(p));
  }
}

TEST_P(CudaLogProbs, OfATargetOutsideTheVocabularyAreNaN) {
  for (const int64_t width : {7, 8}) {
    Problem p(GetParam(), 20, 50, width);
    p.targets.set(7, 50);
    const TestTensor logp = p.Forward()[0];
    for (int64_t r = 0; r < 20; ++r) EXPECT_EQ(std::isnan(logp.at(r)), r == 7) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaLogProbs,
                         testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

}  // namespace
}  // namespace plimsoll::ops
