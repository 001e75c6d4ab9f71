// Plans for a GPU, with or without one: memory.budget bounds the whole process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/axes.h"
#include "memory/interconnect.h"
#include "runtime/cuda/gpu_memory.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/gpu_account.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

constexpr const char* kRun =
    "model: {family: gpt2, layers: 4, width: 64, heads: 4, vocab: 256, sequence: 256}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 2, micro_batch: 64, eval_every: 0}\n"
    "amp: {dtype: bf16}\n"
    "memory: {calibrate: false}\n"
    "device: cuda\n";

class GpuBudget : public testing::Test {
 protected:
  Outcome Plan(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"plan", folder_.Write("run.yaml", kRun)});
    return RunPlimsoll(arguments);
  }
  json PlanJson(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome outcome = ExpectExit(0, Plan(std::move(arguments)));
    return json::parse(outcome.out);
  }
  const TempFolder folder_;
};

TEST_F(GpuBudget, TheProcessIsTheArenaAndWhatItTakesBeside) {
  const json plan = PlanJson({});
  EXPECT_EQ(plan["device"], "cuda");
  const json parts = plan["process_parts"];
  const int64_t arena = plan["arena_bytes"];
  EXPECT_EQ(parts["arena"], arena);
  const int64_t beside = parts["context"].get<int64_t>() + parts["code"].get<int64_t>() +
                         parts["libraries"].get<int64_t>() + parts["graphs"].get<int64_t>() +
                         parts["reserve"].get<int64_t>();
  EXPECT_GT(beside, 256 * kMiB);
  const int64_t pages = (arena + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB;
  EXPECT_EQ(plan["process_bytes"], pages + beside);
  EXPECT_GT(plan["predicted_step_ms"].get<double>(), 0);
  EXPECT_THAT(Plan({}).out, HasSubstr("process on "));
}

TEST_F(GpuBudget, BoundsTheProcess) {
  const json front = PlanJson({"--sweep", "5"})["front"];
  ASSERT_EQ(front.size(), 5u);
  for (const json& row : front) {
    EXPECT_GT(row["budget_bytes"].get<int64_t>(), row["arena_bytes"].get<int64_t>() + 256 * kMiB);
    const json plan = PlanJson({"--budget", std::to_string(row["budget_bytes"].get<int64_t>())});
    EXPECT_LE(plan["process_bytes"], row["budget_bytes"]);
    EXPECT_EQ(plan["arena_bytes"], row["arena_bytes"]);
    EXPECT_EQ(plan["budget_bytes"], row["budget_bytes"]);
  }
  const int64_t least = front.back()["budget_bytes"];
  ExpectExit(3, Plan({"--budget", std::to_string(least - 2 * kMiB)}), {"outside the arena"});
}

// The scratch memory is that of the kernels of the GPU that is planned for, or acted.
TEST_F(GpuBudget, CountsTheKernelsOfTheGpu) {
  const auto arena = [&](std::vector<std::string> arguments) {
    return PlanJson(std::move(arguments))["arena_bytes"].get<int64_t>();
  };
  const int64_t hopper = arena({"--device", "h200"}), ampere = arena({"--device", "3090"});
  EXPECT_LT(ampere, hopper);
  EXPECT_EQ(arena({"--device", "h100"}), hopper);
  EXPECT_EQ(arena({"--device", "h200", "--set", "debug.act_as=8.6"}), ampere);
}

TEST_F(GpuBudget, LessThanWhatTheProcessTakesBesideTheArena) {
  ExpectExit(3, Plan({"--budget", "100MiB"}), {"100 MiB is less than the ", "context"});
}

TEST_F(GpuBudget, RelativeBudgetsAskTheGpu) {
  const Outcome outcome = Plan({"--budget", "90%"});
  if (runtime::GpuMeter::Find()) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return;
  }
  EXPECT_EQ(outcome.exit_code, 2);
  ExpectText(outcome.err, {"no GPU here", "24GiB"});
}

// Communicators are part of the process, with as many channels as justify their memory.
TEST_F(GpuBudget, ChannelsAreChosenForTheMesh) {
  const auto parts = [&](std::vector<std::string> sets) {
    std::vector<std::string> arguments;
    for (const std::string& set : sets) {
      arguments.insert(arguments.end(), {"--set", "parallel." + set});
    }
    return PlanJson(arguments)["process_parts"];
  };
  EXPECT_EQ(parts({})["communicators"], 0);
  const json four = parts({"data=4"});
  EXPECT_EQ(four["channels"], 4);
  EXPECT_EQ(four["communicators"], memory::CommunicatorBytes(Mesh({DataAxis(4)}), 4));
  const json set = parts({"data=2", "tensor=2", "nccl_max_ctas=16"});
  EXPECT_EQ(set["channels"], 16);
  EXPECT_EQ(set["communicators"],
            memory::CommunicatorBytes(Mesh({DataAxis(2), TensorAxis(2)}), 16));
  // Several hosts.
  const json many = parts({"data=64"});
  EXPECT_EQ(many["channels"], 0);
  EXPECT_EQ(many["communicators"],
            memory::CommunicatorBytes(Mesh({DataAxis(64)}), memory::kMostChannels));
  EXPECT_THAT(Plan({"--set", "parallel.data=4"}).out, HasSubstr("(4 channels)"));
}

// The first and the last of several stages have a communicator only for a table that both have.
TEST_F(GpuBudget, CommunicatorsOfEndsAreForSharedTables) {
  const auto communicators = [&](bool tied, int64_t stages) -> int64_t {
    return PlanJson(
        {"--set", fmt::format("model.tied={}", tied), "parallel.nccl_max_ctas=8",
         fmt::format("parallel.pipeline={}", stages)})["process_parts"]["communicators"];
  };
  EXPECT_EQ(communicators(true, 2), communicators(false, 2));
  EXPECT_EQ(communicators(false, 4), communicators(false, 2));
  EXPECT_EQ(communicators(true, 4), communicators(false, 4) + 92 * kMiB);
}

// NCCL reduces maxima through buffers: of tensors with scales of earlier steps, and of weights
// whose codes are gathered.
TEST(CommunicatorsOfDataRanks, ReduceMaximaOfEightBitLayers) {
  using config::Fp8Recipe;
  config::RunConfig run;
  run.parallel.data = 4;
  const auto bytes = [&](Fp8Recipe recipe) {
    run.amp.fp8_recipe = recipe;
    return memory::CommunicatorBytes(MeshFrom(run), 8);
  };
  const int64_t sums = bytes(Fp8Recipe::kNone), maxima = sums + 218 * kMiB;
  EXPECT_EQ(bytes(Fp8Recipe::kCurrent), sums);
  EXPECT_EQ(bytes(Fp8Recipe::kDelayed), maxima);
  run.parallel.zero = 3;
  EXPECT_EQ(bytes(Fp8Recipe::kNone), sums);
  EXPECT_EQ(bytes(Fp8Recipe::kCurrent), maxima);
  run.memory.weights = config::PlaceOrAuto::kHost;  // gathered in 16 bits
  EXPECT_EQ(bytes(Fp8Recipe::kCurrent), sums);
  EXPECT_EQ(bytes(Fp8Recipe::kDelayed), maxima);
}

memory::DeviceProfile Some(int64_t context) {
  memory::DeviceProfile profile = memory::BuiltInGpuProfile("GPU X", 1000 * kMiB);
  profile.context_bytes = context;
  return profile;
}

TEST(DeviceProfile, RoundsTheArenaToPages) {
  memory::DeviceProfile profile = Some(100 * kMiB);
  profile.code_bytes = profile.libraries_bytes = 0;
  profile.graphs_bytes = profile.reserve_bytes = 0;
  EXPECT_EQ(profile.ProcessBytes(1), 102 * kMiB);
  EXPECT_EQ(profile.ProcessBytes(2 * kMiB), 102 * kMiB);
  EXPECT_EQ(profile.ArenaWithin(105 * kMiB), 4 * kMiB);
  EXPECT_LT(profile.ArenaWithin(99 * kMiB), 0);
  EXPECT_EQ(memory::DeviceProfile().ProcessBytes(12345), 12345);
  EXPECT_EQ(memory::DeviceProfile().ArenaWithin(12345), 12345);
}

TEST(DeviceProfile, EachMeshHasAFolder) {
  config::RunConfig run;
  run.memory.calibration = "cache";
  EXPECT_EQ(ProfileFolder(run), "cache");
  run.parallel.data = 4;
  run.parallel.nccl_max_ctas = 8;
  EXPECT_EQ(ProfileFolder(run), "cache/data-4-8-channels");
  run.parallel.data = 2;
  run.parallel.tensor = 2;  // another communicator
  EXPECT_EQ(ProfileFolder(run), "cache/data-2-tensor-2-8-channels");
  run = LoadRunText(kRun, "run.yaml",
                    {"memory.calibrate=true", "memory.calibration=cache", "parallel.pipeline=4",
                     "parallel.nccl_max_ctas=8"})
            .config;
  run.model.settings.Set("tied", false);
  EXPECT_EQ(ProfileFolder(run), "cache/pipeline-4-8-channels");
  run.model.settings.Set("tied", true);
  EXPECT_EQ(ProfileFolder(run), "cache/pipeline-4-ends-2-8-channels");
}

TEST(DeviceProfile, TheLargestMeasuredOneIsKept) {
  const TempFolder folder;
  const std::string cache = folder / "cache";
  EXPECT_FALSE(LoadProfile(cache, "GPU X", kMiB).measured);
  KeepProfile(cache, Some(300 * kMiB));
  EXPECT_TRUE(LoadProfile(cache, "GPU X", kMiB).measured);
  EXPECT_EQ(LoadProfile(cache, "GPU X", kMiB).context_bytes, 300 * kMiB);
  EXPECT_EQ(LoadProfile(cache, "GPU X", kMiB).memory_bytes, kMiB);
  KeepProfile(cache, Some(200 * kMiB));
  EXPECT_EQ(LoadProfile(cache, "GPU X", kMiB).context_bytes, 300 * kMiB);
  KeepProfile(cache, Some(400 * kMiB));
  EXPECT_EQ(LoadProfile(cache, "GPU X", kMiB).context_bytes, 400 * kMiB);
  EXPECT_FALSE(LoadProfile(cache, "GPU Y", kMiB).measured);
  EXPECT_FALSE(LoadProfile("", "GPU X", kMiB).measured);
  // Never less than the built-in profile on the GPU where that was measured.
  const memory::DeviceProfile h200 = memory::BuiltInGpuProfile();
  memory::DeviceProfile less = h200;
  less.context_bytes -= 100 * kMiB;
  KeepProfile(cache, less);
  EXPECT_EQ(LoadProfile(cache, h200.device, h200.memory_bytes), h200);
  memory::DeviceProfile more = h200;
  more.context_bytes += 100 * kMiB;
  KeepProfile(cache, more);
  EXPECT_EQ(LoadProfile(cache, h200.device, h200.memory_bytes).context_bytes, more.context_bytes);
}

TEST(DeviceProfile, ABadFileIsNotBelieved) {
  const TempFolder folder;
  KeepProfile(folder.path(), Some(300 * kMiB));
  ASSERT_EQ(folder.Names("").size(), 1u);
  const std::string path = folder / folder.Names("")[0];
  std::string text = ReadFile(path);
  text.replace(text.find("\"context_bytes\": "), 17, "\"context_bytes\": -");
  for (const std::string& bad : {std::string("{"), std::string(), text}) {
    WriteFile(path, bad);
    EXPECT_FALSE(LoadProfile(folder.path(), "GPU X", kMiB).measured) << bad;
  }
}

TEST(GpuAccount, FarFromPlanIsOverOnePercentAndAHundredMebibytes) {
  EXPECT_FALSE(FarFromPlan(1100 * kMiB, 1000 * kMiB));
  EXPECT_TRUE(FarFromPlan(1101 * kMiB, 1000 * kMiB));
  EXPECT_TRUE(FarFromPlan(899 * kMiB, 1000 * kMiB));
  EXPECT_FALSE(FarFromPlan(50400 * kMiB, 50000 * kMiB));
  EXPECT_TRUE(FarFromPlan(50501 * kMiB, 50000 * kMiB));
}

TEST(GpuAccount, GrowthBeyondAMebibyteIsTold) {
  EXPECT_FALSE(GrowthText(9, 100 * kMiB, 101 * kMiB, kMiB, ""));
  const auto text = GrowthText(9, 100 * kMiB, 102 * kMiB, kMiB, " on the GPU");
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "the process grew by 2.00 MiB on the GPU to 102 MiB at step 9");
}

}  // namespace
}  // namespace plimsoll::trainer
