#include <gtest/gtest.h>

#include <filesystem>

#include "tests/golden/trajectory.h"
#include "tests/support/shared_folder.h"

namespace plimsoll::golden {
namespace {

void ExpectFollows(const std::string& folder) {
  for (int threads : {1, 2}) {
    ThreadPool pool(threads);
    const Deviations d = FollowTrajectory(folder, *runtime::MakeCpuDevice(pool));
    EXPECT_LE(d.loss, kLossTolerance) << folder;
    EXPECT_LE(d.grad_norm, kGradNormTolerance) << folder;
    EXPECT_LE(d.weights, kWeightsTolerance) << folder;
    EXPECT_LE(d.logits, kLogitsTolerance) << folder;
    EXPECT_GE(d.steps, 5) << folder;
  }
}

class OwnTrajectory : public testing::TestWithParam<std::string> {};

TEST_P(OwnTrajectory, IsFollowed) { ExpectFollows("tests/golden/data/" + GetParam()); }

INSTANTIATE_TEST_SUITE_P(Golden, OwnTrajectory,
                         testing::Values("gpt2", "gpt2-accumulate", "llama", "qwen2", "qwen3",
                                         "mistral", "phi3", "llama-yarn", "gemma2", "gemma3",
                                         "lora-gpt2", "lora-llama", "lora-phi3", "lora-gemma3",
                                         "muon-gpt2", "muon-llama"));

class SharedTrajectory : public testing::TestWithParam<std::string> {};

TEST_P(SharedTrajectory, IsFollowed) {
  const auto shared = SharedFolder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  ExpectFollows(*shared + "/golden/" + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Golden, SharedTrajectory,
                         testing::Values("gpt2-tiny", "gpt2-tiny-accumulate", "llama-tiny"));

}  // namespace
}  // namespace plimsoll::golden
