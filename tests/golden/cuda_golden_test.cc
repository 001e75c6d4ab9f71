// The reference trajectories in float32 on a GPU.
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "tests/golden/trajectory.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::golden {
namespace {

class CudaTrajectory : public testing::TestWithParam<std::string> {};

TEST_P(CudaTrajectory, IsFollowed) {
  PLIMSOLL_NEEDS_CUDA
  ThreadPool pool(2);
  const Deviations d =
      FollowTrajectory("tests/golden/data/" + GetParam(), *runtime::MakeCudaDevice(pool));
  EXPECT_LE(d.loss, kLossTolerance);
  EXPECT_LE(d.grad_norm, kGradNormTolerance);
  EXPECT_LE(d.weights, kWeightsTolerance) << "worst: " << d.worst_parameter;
  EXPECT_LE(d.logits, kLogitsTolerance);
  EXPECT_GE(d.steps, 5);
}

INSTANTIATE_TEST_SUITE_P(Golden, CudaTrajectory,
                         testing::Values("gpt2", "gpt2-accumulate", "llama", "qwen2", "qwen3",
                                         "mistral", "phi3", "llama-yarn", "gemma2", "gemma3",
                                         "lora-gpt2", "lora-llama", "lora-phi3", "lora-gemma3",
                                         "muon-gpt2", "muon-llama"));

}  // namespace
}  // namespace plimsoll::golden
