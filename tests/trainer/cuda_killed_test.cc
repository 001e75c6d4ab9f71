// A GPU's memory after a killed run, and after one that ended by itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "runtime/cuda/gpu_memory.h"
#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kMiB = 1 << 20;

int64_t Used() {
  const runtime::GpuMemory memory = runtime::GpuMeter::Find()->Measure();
  return memory.total - memory.free;
}

// The driver needs a moment to free a process's memory.
bool ComesBackTo(int64_t before) {
  for (int tries = 0; tries < 100; ++tries) {
    if (Used() <= before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

class CudaKilled : public testing::Test {
 protected:
  std::vector<std::string> Arguments(int steps) {
    const std::string yaml = folder_.Write(
        "run.yaml",
        "model: {family: gpt2, layers: 4, width: 256, heads: 4, vocab: 256, sequence: 256}\n"
        "data: {synthetic: true}\n"
        "train: {micro_batch: 64, log_every: 1, eval_every: 0}\n"
        "memory: {calibrate: false}\n"
        "device: cuda\n");
    return {"train",          yaml, "--set", "train.steps=" + std::to_string(steps), "--set",
            "run.dir=" + run_};
  }

  const TempFolder folder_;
  const std::string run_ = folder_ / "run";
};

TEST_F(CudaKilled, GivesTheMemoryBack) {
  PLIMSOLL_NEEDS_CUDA
  if (!runtime::GpuMeter::Find()->Measure().others.empty()) {
    GTEST_SKIP() << "other processes are on the GPU";
  }
  const int64_t before = Used();
  const pid_t child = StartPlimsoll(Arguments(1000000), folder_.path());
  const std::string metrics = run_ + "/metrics.jsonl";
  int64_t held = 0;
  for (int tries = 0; tries < 600 && held == 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::error_code error;
    if (std::filesystem::file_size(metrics, error) > 0 && !error) held = Used() - before;
  }
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << ReadFile(folder_ / "err");
  EXPECT_GT(held, 200 * kMiB) << "the run held next to nothing: was it training?";
  EXPECT_TRUE(ComesBackTo(before)) << (Used() - before) / kMiB << " MiB are still held";
}

TEST_F(CudaKilled, SoDoesOneThatEnds) {
  PLIMSOLL_NEEDS_CUDA
  if (!runtime::GpuMeter::Find()->Measure().others.empty()) {
    GTEST_SKIP() << "other processes are on the GPU";
  }
  const int64_t before = Used();
  ExpectExit(0, RunPlimsoll(Arguments(5)));
  EXPECT_TRUE(ComesBackTo(before)) << (Used() - before) / kMiB << " MiB are still held";
}

}  // namespace
}  // namespace plimsoll::trainer
