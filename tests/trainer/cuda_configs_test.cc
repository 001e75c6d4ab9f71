// Every file in configs/ on a GPU: the run uses exactly its planned arena, or is refused before its
// first step.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "runtime/cuda/gpu_memory.h"
#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/config/config_files.h"
#include "trainer/resolve/from_config.h"
#include "trainer/train.h"

namespace plimsoll::trainer {
namespace {

class CudaConfig : public testing::TestWithParam<std::string> {};

TEST_P(CudaConfig, UsesWhatIsPlannedOrIsRefused) {
  PLIMSOLL_NEEDS_CUDA
  const TempFolder folder;
  const std::string run = folder / "run";
  const config::Loaded loaded =
      LoadRun(GetParam(),
              {"device=cuda", "data.synthetic=true", "debug.check_arena=true",
               "memory.allocator=planned", "memory.calibrate=false", "train.epochs=0",
               "train.steps=2", "schedule.warmup=1", "train.sample_every=0", "train.eval_every=0",
               "train.eval_every_epochs=0", "save.model=false", "run.dir=" + run});
  testing::internal::CaptureStdout();
  std::string refused;
  try {
    runtime::World world;
    Train(loaded, world);
  } catch (const UserError& error) {
    refused = error.what();
  }
  const std::string out = testing::internal::GetCapturedStdout();
  if (refused.find(": no such tokenizer") != refused.npos ||
      refused.find(": there is no such folder") != refused.npos) {
    GTEST_SKIP() << refused;
  }
  if (!refused.empty()) {
    EXPECT_THAT(refused, testing::AnyOf(testing::HasSubstr("device: cuda: the run needs"),
                                        testing::HasSubstr("memory.budget: 100 MiB is less than")));
    EXPECT_FALSE(std::filesystem::exists(run));
    std::puts(refused.c_str());
    return;
  }
  const size_t line = out.find("arena: ");
  ASSERT_NE(line, std::string::npos) << out;
  long long planned = 0, used = 0;
  ASSERT_EQ(std::sscanf(out.c_str() + line, "arena: %lld bytes planned, %lld bytes used", &planned,
                        &used),
            2)
      << out;
  EXPECT_EQ(planned, used);
  std::printf("%s: %lld bytes planned and used\n", GetParam().c_str(), planned);
}

INSTANTIATE_TEST_SUITE_P(Configs, CudaConfig, testing::ValuesIn(config::PlannableConfigFiles()),
                         [](const auto& info) { return config::TestName(info.param); });

}  // namespace
}  // namespace plimsoll::trainer
