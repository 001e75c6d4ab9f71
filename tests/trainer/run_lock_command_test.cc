// Only one training at a time can use a run directory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

TEST(RunLock, ASecondTrainingIsRefusedUntilTheFirstIsGone) {
  const TempFolder folder;
  const std::string run = folder / "r", metrics = run + "/metrics.jsonl";
  const std::string yaml = folder.Write(
      "m.yaml",
      "model: {family: gpt2, layers: 1, width: 16, heads: 2, sequence: 8, vocab: 256}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 3, micro_batch: 2, threads: 1}\n"
      "save: {every: 100}\n"
      "run: {dir: " +
          run + ", overwrite: true}\n");
  const pid_t first =
      StartPlimsoll({"train", yaml, "--set", "train.steps=100000000"}, folder.path());
  const auto lines = [&] {
    std::error_code error;
    return std::filesystem::exists(metrics, error) ? ReadFile(metrics).size() : 0;
  };
  for (int i = 0; i < 1000 && !std::filesystem::exists(run + "/snapshots"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const size_t before = lines();
  ASSERT_GT(before, 0u);

  for (const std::vector<std::string>& more :
       {std::vector<std::string>{},
        {"--resume", "auto"},
        {"--set", "run.overwrite=false"},
        {"--set", "run.dir=" + folder.path() + "/./r/../r"}}) {
    std::vector<std::string> arguments = {"train", yaml};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ExpectExit(2, RunPlimsoll(arguments),
               {"run.dir: ", "process " + std::to_string(first) + " on host "});
  }
  EXPECT_GE(lines(), before);
  EXPECT_EQ(waitpid(first, nullptr, WNOHANG), 0) << "the first has ended";

  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  ExpectExit(0, RunPlimsoll({"train", yaml}));
  EXPECT_FALSE(std::filesystem::exists(run + "/.lock"));
}

}  // namespace
}  // namespace plimsoll
