// The Dice loss on the GPU: at the size of a volume, and of labels that are no class.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/ops/cuda_op_runner.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

const Attributes kOptions = {{"include_background", false}, {"squared_pred", false},
                             {"smooth_nr", 1e-5},           {"smooth_dr", 1e-5},
                             {"lambda_dice", 1.0},          {"lambda_ce", 0.5}};

TestTensor Labels(const graph::Shape& shape, int classes) {
  TestTensor labels({DType::kInt32, shape});
  std::mt19937 generator(2);
  std::uniform_int_distribution<int> label(-1, classes - 1);
  for (int64_t i = 0; i < labels.size(); ++i) labels.set(i, label(generator));
  return labels;
}

TEST(CudaDice, AgreesWithTheCpuOnAVolume) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  constexpr int kClasses = 3;
  const graph::Shape voxels = {2, 64, 64, 72};
  const TestTensor logits = NormalValues(DType::kFloat16, {2, 64, 64, 72, kClasses}, 1, 2);
  const TestTensor labels = Labels(voxels, kClasses);
  // dlogits are then far from fp16's smallest numbers.
  const TestTensor weight = Values(DType::kFloat32, {}, {0.5});
  const TestTensor dloss = Values(DType::kFloat32, {}, {65536});
  const auto cpu = RunOp("dice_loss", {&logits, &labels, &weight}, kOptions);
  const auto cuda = RunCudaOp("dice_loss", {&logits, &labels, &weight}, libraries, kOptions);
  EXPECT_NEAR(cuda[0].at(0), cpu[0].at(0), 1e-5 * cpu[0].at(0));
  for (int64_t i = 0; i < cpu[1].size(); ++i) {
    EXPECT_NEAR(cuda[1].at(i), cpu[1].at(i), 1e-5 * cpu[1].at(i)) << i;
  }
  const std::vector<const TestTensor*> arguments = {&logits, &labels, &weight, &cpu[1], &dloss};
  const TestTensor want = RunOp("dice_loss_backward", arguments, kOptions)[0];
  const TestTensor got = RunCudaOp("dice_loss_backward", arguments, libraries, kOptions)[0];
  for (int64_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got.at(i), want.at(i), 0x1p-10 * std::abs(want.at(i)) + 1e-6) << i;
  }
}

TEST(CudaDice, ALabelBeyondTheClassesShowsInTheLoss) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  Attributes dice_alone = kOptions;
  dice_alone.Set("lambda_ce", 0.0);
  for (const int64_t classes : {3, 20}) {
    const TestTensor logits = NormalValues(DType::kFloat32, {2, 50, classes}, 1);
    TestTensor labels = Labels({2, 50}, static_cast<int>(classes));
    const TestTensor weight = Values(DType::kFloat32, {}, {0.5});
    const auto loss = [&] {
      return RunCudaOp("dice_loss", {&logits, &labels, &weight}, libraries, dice_alone)[0].at(0);
    };
    EXPECT_FALSE(std::isnan(loss()));
    labels.set(70, static_cast<double>(classes));
    EXPECT_TRUE(std::isnan(loss()));
  }
}

}  // namespace
}  // namespace plimsoll::ops
