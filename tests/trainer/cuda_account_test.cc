// The memory of a process on a GPU: its own account compared with the driver's count.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/cuda/gpu_memory.h"
#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/gpu_account.h"
#include "trainer/resolve/from_config.h"
#include "trainer/train.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;

constexpr int64_t kMiB = 1 << 20;

CompileOptions OptionsOf(const TinyRun& run) {
  CompileOptions options;
  options.micro_batch = run.micro_batch;
  options.sequence = run.sequence;
  options.device = runtime::DeviceKind::kCuda;
  options.capability = runtime::PresentCapability();
  return options;
}

TEST(CudaAccount, ThePartsAreWhatTheDriverCounts) {
  PLIMSOLL_NEEDS_CUDA
  const std::optional<runtime::GpuMeter> meter = runtime::GpuMeter::Find();
  ASSERT_TRUE(meter);
  const TinyRun run;
  const auto model = models::MakeModel(run.spec);
  ThreadPool pool(1);
  const std::unique_ptr<runtime::Device> device = runtime::MakeCudaDevice(pool);
  int64_t ready = 0, arena = 0;
  {
    Session session(Compile(*model, OptionsOf(run)), *device);
    const runtime::GpuMeter::Process process = meter->MeasureProcess();
    if (!process.by_driver) GTEST_SKIP() << "the driver does not count this process by itself";
    ready = process.bytes;
    const runtime::ProcessParts parts = session.memory().process_parts();
    arena = parts.arena;
    EXPECT_GE(arena, session.compiled().plan.arena_bytes);
    EXPECT_GT(parts.context, 0);
    // The session's slots come last.
    const int64_t sum = parts.context + parts.arena + parts.code + parts.libraries + parts.graphs;
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(ready), 4.0 * kMiB);

    session.Initialize(*model, 1);
    for (int step = 0; step < 20; ++step) {
      std::fill(session.batch().tokens.begin(), session.batch().tokens.end(), step);
      std::fill(session.batch().targets.begin(), session.batch().targets.end(), 1);
      session.BeginStep(run.micro_batch * run.sequence, 1e-3, 1);
      session.Run(step, 0);
      (void)session.Metrics();
    }
    EXPECT_EQ(meter->MeasureProcess().bytes, ready);
  }
  EXPECT_LE(meter->MeasureProcess().bytes, ready - arena);
}

TEST(CudaAccount, ARunReportsTheProcessAndStaysAsItIs) {
  PLIMSOLL_NEEDS_CUDA
  const TempFolder folder;
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const std::string yaml = folder.Write(
      "run.yaml",
      "model: {family: gpt2, layers: 2, width: 64, heads: 2, vocab: 256, sequence: 64}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 30, micro_batch: 8, log_every: 1}\n"
      "amp: {dtype: bf16}\n"
      "device: cuda\n");
  const std::string run = folder / "run";
  runtime::World world;
  Train(LoadRun(yaml, {"run.dir=" + run}), world);
  const json plan = json::parse(ReadFile(run + "/plan.json"));
  std::istringstream lines(ReadFile(run + "/metrics.jsonl"));
  std::vector<int64_t> bytes;
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    if (row.contains("step_ms")) bytes.push_back(row["gpu_bytes"]);
  }
  ASSERT_EQ(bytes.size(), 30u);
  EXPECT_FALSE(FarFromPlan(bytes.back(), plan["process_bytes"]));
  for (size_t step = 3; step < bytes.size(); ++step) EXPECT_EQ(bytes[step], bytes[2]) << step;
  // The next plan knows the memory that the process took besides the arena.
  EXPECT_FALSE(folder.Names("cache/plimsoll").empty());
}

}  // namespace
}  // namespace plimsoll::trainer
