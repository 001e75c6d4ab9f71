// The fused loss on the GPU compared with the CPU's, for every row length with a path of its own,
// several chunks, and its three ops compared with each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/capability.h"
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

struct Problem : LinearLossOperands {
  Problem(DType dtype, int64_t rows, int64_t vocabulary, int64_t width, double spread = 3)
      : LinearLossOperands(dtype, rows, vocabulary, width, spread),
        scale(Values(DType::kFloat32, {}, {0.125})),
        dloss(Values(DType::kFloat32, {}, {3})),
        acc(NormalValues(DType::kFloat32, {vocabulary, width}, 3)) {}

  std::vector<TestTensor> Forward() {
    return RunCudaOp("linear_cross_entropy", {&x, &weight, &targets, &scale}, libraries);
  }
  std::vector<TestTensor> Backward(const TestTensor& lse, const TestTensor* given) {
    return RunCudaOp("linear_cross_entropy_backward",
                     {&x, &weight, &targets, &scale, &lse, &dloss, given}, libraries);
  }
  std::vector<TestTensor> Train(const TestTensor* given, const std::vector<bool>& want = {}) {
    return RunCudaOp("linear_cross_entropy_train", {&x, &weight, &targets, &scale, &dloss, given},
                     libraries, {}, want);
  }

  TestTensor scale, dloss, acc;
};

// Compares with the CPU in float32 on the same, rounded operands; and the pair of ops with the
// single op.
void ExpectAgreement(Problem&& p, double tolerance) {
  const TestTensor x = InFloat32(p.x), weight = InFloat32(p.weight);
  const std::vector<TestTensor> cpu =
      RunOp("linear_cross_entropy_train", {&x, &weight, &p.targets, &p.scale, &p.dloss, nullptr});
  const std::vector<TestTensor> lse =
      RunOp("linear_cross_entropy", {&x, &weight, &p.targets, &p.scale});
  const std::vector<TestTensor> train = p.Train(nullptr);
  const std::vector<TestTensor> forward = p.Forward();
  const std::vector<TestTensor> backward = p.Backward(forward[1], nullptr);
  EXPECT_NEAR(train[0].at(0), cpu[0].at(0), tolerance * cpu[0].at(0));
  ExpectWithin(train[1], cpu[1], tolerance, "dx");
  ExpectWithin(train[2], cpu[2], tolerance, "dweight");
  ExpectWithin(forward[1], lse[1], tolerance, "lse");
  EXPECT_TRUE(SameBits(train[0], forward[0]));
  EXPECT_TRUE(SameBits(train[1], backward[0]));
  EXPECT_TRUE(SameBits(train[2], backward[1]));
  EXPECT_TRUE(SameBits(p.Train(nullptr)[2], train[2])) << "a second run has other bits";
}

// Ignores all rows.
void ExpectNothing(Problem&& p) {
  for (int64_t r = 0; r < p.targets.size(); ++r) p.targets.set(r, -100);
  for (const TestTensor& output : p.Train(nullptr)) {
    for (int64_t i = 0; i < output.size(); ++i) ASSERT_EQ(output.at(i), 0);
  }
}

class CudaLoss : public testing::TestWithParam<DType> {
 protected:
  void Expect(int64_t rows, int64_t vocabulary, int64_t width) {
    SCOPED_TRACE(std::to_string(rows) + " rows, vocabulary " + std::to_string(vocabulary));
    ExpectAgreement(Problem(GetParam(), rows, vocabulary, width),
                    LossTolerance(GetParam(), vocabulary, width));
  }
};

// Of more rows than a GPU computes at once, each thread copies the next row while it writes one.
TEST_P(CudaLoss, AgreesWithTheCpuOnShortRows) {
  PLIMSOLL_NEEDS_CUDA
  Expect(37, 61, 9);
  Expect(37, 61, 16);
  Expect(3500, 61, 9);
  Expect(300, 3000, 40);
  Expect(700, 256, 64);
}

TEST_P(CudaLoss, AgreesWithTheCpuOnLongRows) {
  PLIMSOLL_NEEDS_CUDA
  Expect(300, 50304, 16);
  Expect(150, 50257, 16);
  Expect(20, 100001, 8);
  Expect(150, 151936, 8);
  Expect(5, 300001, 8);
  Expect(3, 1000003, 8);
  // Of these, logits are stored in every type: on an H200 in a block's shared memory, or, in
  // float32, that of four blocks,
  Expect(300, 50304, 9);
  Expect(150, 100001, 7);
  // of eight,
  Expect(40, 300001, 7);
  // and, in float32, of none.
  Expect(3, 1000003, 7);
}

// The target's logit may come from sums in two orders.
TEST_P(CudaLoss, AVocabularyOfOneLosesNothing) {
  PLIMSOLL_NEEDS_CUDA
  const std::vector<TestTensor> train = Problem(GetParam(), 1, 1, 8).Train(nullptr);
  for (const TestTensor& output : train) {
    for (int64_t i = 0; i < output.size(); ++i) ASSERT_NEAR(output.at(i), 0, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaLoss,
                         testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

TEST(CudaLossChunks, AgreesWithTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  for (const auto& [dtype, width] : {std::pair<DType, int64_t>{DType::kFloat32, 2},
                                     {DType::kBFloat16, 8},
                                     {DType::kFloat16, 8}}) {
    SCOPED_TRACE(graph::Name(dtype));
    constexpr int64_t kRows = 1100, kVocabulary = 210000;
    Problem p(dtype, kRows, kVocabulary, width);
    const int64_t chunk = LayOutCudaLoss(kRows, kVocabulary, width, dtype).chunk;
    ASSERT_LT(chunk, kRows);
    // Only a few rows count, on both sides of the boundary.
    for (int64_t r = 0; r < kRows - 1; ++r) {
      if (r % 64 != 0 && r != chunk - 1) p.targets.set(r, -100);
    }
    ExpectAgreement(std::move(p), LossTolerance(dtype, kVocabulary, width));
  }
}

// A row of the vocabulary that fills no pack of 16 bytes, in one chunk and in several.
TEST(CudaLossChunks, AddABiasAndItsGradient) {
  PLIMSOLL_NEEDS_CUDA
  for (const auto& [rows, vocabulary] : {std::pair<int64_t, int64_t>{300, 3001}, {1100, 210003}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + " " + std::to_string(vocabulary));
      Problem p(dtype, rows, vocabulary, 2);
      for (int64_t r = 0; rows > 1000 && r < 1099; ++r) {
        if (r % 64 != 0) p.targets.set(r, -100);
      }
      const TestTensor bias = NormalValues(dtype, {vocabulary}, 4, 0.3);  // logits stay as large
      const TestTensor acc = NormalValues(DType::kFloat32, {vocabulary}, 5);
      const TestTensor x = InFloat32(p.x), weight = InFloat32(p.weight), wide = InFloat32(bias);
      const std::vector<TestTensor> cpu =
          RunOp("linear_cross_entropy_train",
                {&x, &weight, &p.targets, &p.scale, &p.dloss, nullptr, &wide, &acc});
      const std::vector<TestTensor> train = RunCudaOp(
          "linear_cross_entropy_train",
          {&p.x, &p.weight, &p.targets, &p.scale, &p.dloss, nullptr, &bias, &acc}, p.libraries);
      const double tolerance = LossTolerance(dtype, vocabulary, 2, /*bias=*/true);
      EXPECT_NEAR(train[0].at(0), cpu[0].at(0), tolerance * cpu[0].at(0));
      ExpectWithin(train[1], cpu[1], tolerance, "dx");
      ExpectWithin(train[2], cpu[2], tolerance, "dweight");
      ExpectWithin(train[3], cpu[3], tolerance, "dbias");
      const std::vector<TestTensor> forward = RunCudaOp(
          "linear_cross_entropy", {&p.x, &p.weight, &p.targets, &p.scale, &bias}, p.libraries);
      const std::vector<TestTensor> backward = RunCudaOp(
          "linear_cross_entropy_backward",
          {&p.x, &p.weight, &p.targets, &p.scale, &forward[1], &p.dloss, nullptr, &bias, &acc},
          p.libraries);
      EXPECT_TRUE(SameBits(forward[0], train[0]));
      for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(SameBits(backward[i], train[i + 1])) << i;
    }
  }
}

TEST(CudaLossChunks, FollowShapeAndType) {
  const auto chunk = [](int64_t rows, int64_t vocabulary, DType dtype) {
    return LayOutCudaLoss(rows, vocabulary, 768, dtype).chunk;
  };
  EXPECT_EQ(chunk(32768, 50304, DType::kBFloat16), 4096);
  EXPECT_EQ(chunk(100, 50304, DType::kBFloat16), 100);
  EXPECT_EQ(chunk(5000, 50304, DType::kBFloat16), 2560);  // two about equal ones
  EXPECT_EQ(LayOutCudaLoss(10, 50257, 768, DType::kBFloat16).stride, 50304);
  // As many bytes as a wide weight has; but at most a third of the rows.
  EXPECT_EQ(LayOutCudaLoss(32768, 152064, 3584, DType::kBFloat16).chunk, 3328);
  EXPECT_EQ(LayOutCudaLoss(8192, 152064, 3584, DType::kBFloat16).chunk, 2816);
}

// In fp16 a copy of the weight in bf16, for dx; no more where logits are stored.
TEST(CudaLossLayout, HasRoomForExponentials) {
  constexpr int64_t kRows = 4096, kVocabulary = 50304, kWidth = 768;
  const auto bytes = [](DType dtype, int64_t width, const LossOptions& options) {
    return LayOutCudaLoss(kRows, kVocabulary, width, dtype, options).bytes;
  };
  const LossOptions with_dx{.dx = true}, bias{.bias = true, .dx = true};
  const int64_t low = bytes(DType::kBFloat16, kWidth, with_dx);
  EXPECT_EQ(bytes(DType::kFloat16, kWidth, with_dx), low + kVocabulary * kWidth * 2);
  EXPECT_EQ(bytes(DType::kFloat16, kWidth, {}), low);
  EXPECT_EQ(bytes(DType::kBFloat16, kWidth, {}), low);
  EXPECT_EQ(bytes(DType::kFloat16, kWidth, bias), bytes(DType::kBFloat16, kWidth, bias));
  const LossOptions capped{.dx = true, .softcap = true};
  EXPECT_EQ(bytes(DType::kFloat16, kWidth, capped), bytes(DType::kBFloat16, kWidth, capped));
  EXPECT_LT(bytes(DType::kFloat16, kWidth, capped), low);
  // Rows longer than 1,024: logits, losses and what cuBLASLt takes.
  const LossOptions none;
  EXPECT_EQ(bytes(DType::kFloat16, 1600, with_dx), bytes(DType::kFloat16, 8192, none));
  EXPECT_LT(bytes(DType::kFloat16, 1600, with_dx), low);
}

TEST(CudaLossOp, AddsToTheGivenGradient) {
  PLIMSOLL_NEEDS_CUDA
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    Problem p(dtype, 40, 300, 24);
    const std::vector<TestTensor> fresh = p.Train(nullptr);
    const std::vector<TestTensor> added = p.Train(&p.acc);
    for (int64_t i = 0; i < p.acc.size(); ++i) {
      ASSERT_NEAR(added[2].at(i), p.acc.at(i) + fresh[2].at(i), 1e-5) << i;
    }
    // In place.
    const CudaTensor x(p.x), weight(p.weight), targets(p.targets), scale(p.scale), dloss(p.dloss);
    const CudaTensor acc(p.acc);
    CudaOpRunner runner("linear_cross_entropy_train", {&x, &weight, &targets, &scale, &dloss, &acc},
                        {});
    runner.Share(2, acc);
    runner.Enqueue(p.libraries);
    EXPECT_TRUE(SameBits(acc.Download(), added[2]));
  }
}

TEST(CudaLossOp, LeavesOutGradientsThatNobodyWants) {
  PLIMSOLL_NEEDS_CUDA
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    Problem p(dtype, 40, 300, 24);
    const std::vector<TestTensor> all = p.Train(nullptr);
    EXPECT_TRUE(SameBits(p.Train(nullptr, {true, true, false})[1], all[1]));
    EXPECT_TRUE(SameBits(p.Train(nullptr, {true, false, true})[2], all[2]));
  }
}

TEST_P(CudaLoss, IgnoredRowsHaveNoGradient) {
  PLIMSOLL_NEEDS_CUDA
  for (const int64_t width : {23, 24}) ExpectNothing(Problem(GetParam(), 40, 300, width));
}

TEST(CudaLossOp, SurvivesLargeLogits) {
  PLIMSOLL_NEEDS_CUDA
  Problem p(DType::kFloat32, 20, 5000, 8, 1e5);
  const std::vector<TestTensor> got = p.Train(nullptr);
  const std::vector<TestTensor> cpu = RunOp(
      "linear_cross_entropy_train", {&p.x, &p.weight, &p.targets, &p.scale, &p.dloss, nullptr});
  EXPECT_NEAR(got[0].at(0), cpu[0].at(0), 1e-5 * cpu[0].at(0));
  for (int64_t i = 0; i < got[1].size(); ++i) ASSERT_TRUE(std::isfinite(got[1].at(i)));
}

// Of 16 bits with rows of whole 16-byte packs: on Hopper exponentials are stored instead of logits.
class CudaLossExponentials : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_CUDA
    if (!gpu::OnHopper()) GTEST_SKIP() << "its logits are rounded";
  }
};

TEST_P(CudaLossExponentials, LossesAreNotRounded) {
  Problem p(GetParam(), 200, 5003, 64, 5);
  const TestTensor x = InFloat32(p.x), weight = InFloat32(p.weight);
  const std::vector<TestTensor> cpu =
      RunOp("linear_cross_entropy", {&x, &weight, &p.targets, &p.scale});
  const std::vector<TestTensor> got = p.Forward();
  EXPECT_NEAR(got[0].at(0), cpu[0].at(0), 1e-6 * cpu[0].at(0));
  ExpectWithin(got[1], cpu[1], 1e-6, "lse");
}

// Rows whose losses are tiny, large, and too large for exponentials relative to the target's.
TEST_P(CudaLossExponentials, RowsOfAnyLossAreRight) {
  constexpr int64_t kRows = 50, kVocabulary = 700, kWidth = 64;
  Problem p(GetParam(), kRows, kVocabulary, kWidth, 1);
  for (int64_t r = 0; r < kRows; ++r) {
    // Sets the target's logit to a value between -300 and 300.
    const auto target = static_cast<int64_t>(p.targets.at(r));
    if (target < 0) continue;
    double square = 0;
    for (int64_t k = 0; k < kWidth; ++k) {
      square += std::pow(p.weight.at(target * kWidth + k), 2);
    }
    for (int64_t k = 0; k < kWidth; ++k) {
      const double along = p.weight.at(target * kWidth + k) / square;
      const auto wanted = static_cast<double>(r * 12 - 300);
      p.x.set(r * kWidth + k, p.x.at(r * kWidth + k) + wanted * along);
    }
  }
  ExpectAgreement(std::move(p), 0x1p-7);
}

TEST_P(CudaLossExponentials, IgnoredRowsOfLargeLogitsHaveNoGradient) {
  ExpectNothing(Problem(GetParam(), 40, 300, 24, 500));
}

// As in the reference: the gradients of each row's logits. As bf16s, that of the target rounds by
// at most 2⁻⁸ of it, and the others, whose sum is as large, by no more together.
TEST_P(CudaLossExponentials, GradientsSumToZero) {
  constexpr int64_t kVocabulary = 3000, kWidth = 40;
  Problem p(GetParam(), 1, kVocabulary, kWidth, 5);
  p.targets.set(0, 7);
  const double bound = GetParam() == DType::kBFloat16 ? 0x1p-8 : 0x1p-7;
  const TestTensor dweight = p.Train(nullptr)[2];
  for (int64_t k = 0; k < kWidth; ++k) {
    double sum = 0, of_target = dweight.at(7 * kWidth + k);
    for (int64_t v = 0; v < kVocabulary; ++v) sum += dweight.at(v * kWidth + k);
    ASSERT_NEAR(sum, 0, bound * std::abs(of_target)) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaLossExponentials,
                         testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

// A dynamic loss scale looks for infinities: in dx, of what is beyond fp16, and of nothing else.
// dweight is float32.
TEST(CudaLossOverflow, MakesInfinitiesOfWhatIsBeyondTheType) {
  PLIMSOLL_NEEDS_CUDA
  Problem p(DType::kFloat16, 40, 300, 24);
  if (!gpu::OnHopper()) GTEST_SKIP() << "gradients of logits may overflow";
  p.dloss = Values(DType::kFloat32, {}, {1e6});
  const TestTensor x = InFloat32(p.x), weight = InFloat32(p.weight);
  const std::vector<TestTensor> cpu =
      RunOp("linear_cross_entropy_train", {&x, &weight, &p.targets, &p.scale, &p.dloss, nullptr});
  const std::vector<TestTensor> got = p.Train(nullptr);
  constexpr double kMost = 65504, kTolerance = 0x1p-7;
  double largest = 0;
  for (int64_t i = 0; i < cpu[1].size(); ++i) largest = std::max(largest, std::abs(cpu[1].at(i)));
  int beyond = 0, within = 0;
  for (int64_t i = 0; i < cpu[1].size(); ++i) {
    const double want = cpu[1].at(i), error = kTolerance * largest;
    if (std::abs(want) - error > kMost) {
      ASSERT_EQ(got[1].at(i), std::copysign(INFINITY, want)) << i;
      ++beyond;
    } else if (std::abs(want) + error < kMost) {
      ASSERT_NEAR(got[1].at(i), want, error) << i;
      within += want != 0;
    }
  }
  EXPECT_GT(beyond, 50);
  EXPECT_GT(within, 50);
  ExpectWithin(got[2], cpu[2], kTolerance, "dweight");
}

TEST_P(CudaLoss, AnInfiniteScaleReachesAllGradients) {
  PLIMSOLL_NEEDS_CUDA
  for (const int64_t width : {23, 24}) {
    Problem p(GetParam(), 40, 300, width);
    p.dloss = Values(DType::kFloat32, {}, {INFINITY});
    const std::vector<TestTensor> train = p.Train(nullptr);
    EXPECT_TRUE(std::isfinite(train[0].at(0)));
    for (int64_t i = 0; i < train[1].size(); ++i) {
      const bool counts = p.targets.at(i / width) >= 0;
      ASSERT_TRUE(!counts || !std::isfinite(train[1].at(i))) << i;
    }
    for (int64_t i = 0; i < train[2].size(); ++i) ASSERT_FALSE(std::isfinite(train[2].at(i))) << i;
  }
}

TEST_P(CudaLoss, ATargetOutsideTheVocabularyShowsInTheLoss) {
  PLIMSOLL_NEEDS_CUDA
  Problem p(GetParam(), 20, 50, 8);
  p.targets.set(7, 50);
  EXPECT_TRUE(std::isnan(p.Train(nullptr)[0].at(0)));
}

TEST_P(CudaLoss, RunsFromAGraph) {
  PLIMSOLL_NEEDS_CUDA
  Problem p(GetParam(), 300, 3000, 40);
  const std::vector<TestTensor> expected = p.Train(nullptr);
  const CudaTensor x(p.x), weight(p.weight), targets(p.targets), scale(p.scale), dloss(p.dloss);
  CudaOpRunner runner("linear_cross_entropy_train",
                      {&x, &weight, &targets, &scale, &dloss, nullptr}, {});
  cudaStream_t stream;
  gpu::Check(cudaStreamCreate(&stream), "cudaStreamCreate");
  runner.Prepare(p.libraries, stream);
  gpu::Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  runner.Enqueue(p.libraries, stream);
  cudaGraph_t graph;
  gpu::Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable;
  gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  gpu::Check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  gpu::Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(SameBits(runner.output(i).Download(), expected[i])) << i;
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace plimsoll::ops
