// Commands answer quickly, whatever they are asked: measured in processor time, and by that of one
// plan of the largest model of configs/models. So neither a busy machine nor a slow one fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

double ChildSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

constexpr const char* kTiny =
    "model: {family: gpt2, layers: 1, width: 16, heads: 2, sequence: 8, vocab: 256}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 3, micro_batch: 2, accumulate: 2, threads: 2}\n"
    "memory: {calibrate: false}\n";

class Answers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const double before = ChildSeconds();
    RunPlimsoll({"plan", "configs/models/gpt3-175b.yaml", "--device", "h200"});
    plan_seconds_ = ChildSeconds() - before;
  }

  // Runs the command, which may take as long as that number of plans.
  Outcome Ask(std::vector<std::string> arguments, double most_plans = 4) {
    const double before = ChildSeconds();
    Outcome outcome = RunPlimsoll(arguments);
    EXPECT_LT(ChildSeconds() - before, most_plans * plan_seconds_);
    return outcome;
  }

  static inline double plan_seconds_ = 0;

  const TempFolder folder_;
  const std::string tiny_ = folder_.Write("tiny.yaml", kTiny);
};

TEST_F(Answers, CachesThatAreRarelyCleared) {
  ExpectExit(0, Ask({"train", tiny_, "--set", "memory.allocator=caching", "--set",
                     "memory.empty_cache_every=1048576", "--set", "run.dir=" + (folder_ / "run")}));
}

// The time does not grow with the number of micro-steps.
TEST_F(Answers, LongAccumulations) {
  const Outcome outcome =
      ExpectExit(0, Ask({"plan", tiny_, "--json", "--set", "train.accumulate=10000000"}));
  EXPECT_LT(outcome.peak_resident_bytes, int64_t{200} << 20);
  ExpectExit(2, Ask({"plan", tiny_, "--set", "train.global_batch=1000000000000"}),
             {"500000000000 micro-steps an update, more than 10000000"});
}

TEST_F(Answers, TheLargestModel) {
  for (const char* budget : {"1MiB", "8MiB", "24GiB"}) {
    const Outcome outcome =
        ExpectExit(0, Ask({"plan", tiny_, "--budget", budget, "--max", "model.layers", "--json"}));
    const json answer = json::parse(outcome.out);
    EXPECT_EQ(answer["limited_by_budget"], budget != std::string("24GiB"));
  }
}

TEST_F(Answers, AModelThatFitsNowhere) {
  const std::string large = folder_.Write(
      "70b.yaml",
      "model: {family: llama, layers: 80, width: 8192, heads: 64, kv_heads: 8, ffn_width: 28672,\n"
      "        vocab: 128256, sequence: 4096}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 10, micro_batch: 1}\n");
  const Outcome outcome =
      Ask({"config", "--for", large, "--device", "cpu", "--budget", "72GiB"}, 0.5);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("memory.budget: 72.0 GiB (77309411328 bytes) is less than "
                                     "the parameters alone"));
}

TEST_F(Answers, AModelThatIsFarFromFitting) {
  const Outcome outcome =
      Ask({"config", "--for", "gpt3-175b", "--device", "3090", "--budget", "6GiB"}, 2);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("; the smallest plan needs 25.9 GiB (27837595648 bytes); "));
}

// The parameters alone are 15 GiB in bf16.
TEST_F(Answers, AModelLargerThanTheGpu) {
  const Outcome outcome =
      ExpectExit(0, Ask({"config", "--for", "llama-8b", "--device", "4090", "--budget", "14GiB"}));
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("\n# Takes [0-9.]+ GiB of the GPU and 1[0-9][0-9] GiB of the "
                                     "host, pinned.\n# By built-in rates a step of 2097152 tokens "
                                     "takes about [0-9]+m[0-9]+s, "));
  EXPECT_THAT(outcome.out, HasSubstr("# For one GPU: with train.global_batch: "));
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("# Next to frozen weights adapters take (.|\n)*--lora 16\\."));
}

// One program of all micro-steps, which blocks first needs, would have 300,000 nodes.
TEST_F(Answers, AdviceForManyMicroSteps) {
  const Outcome outcome = Ask({"plan", "configs/models/llama-1b.yaml", "--device", "4060ti-8gb",
                               "--set", "amp.dtype=bf16", "--set", "train.micro_batch=1", "--set",
                               "train.accumulate=512", "--set", "optimizer.place=host"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, Not(HasSubstr("blocks_first")));
}

TEST_F(Answers, EveryChoiceLeftOpen) {
  ExpectExit(0,
             Ask({"plan", "configs/models/gpt2-124m.yaml", "--device", "h200", "--set",
                  "amp.dtype=bf16", "--set", "train.micro_batch=auto", "--set",
                  "train.global_batch=512", "--set", "optimizer.place=auto", "--budget", "24GiB"}));
}

TEST_F(Answers, WeightsLeaveWhereTheBudgetAsksForIt) {
  const auto plan = [&](const char* budget) {
    return Ask({"plan",     "configs/bench/llama-8b-8gib.yaml",
                "--device", "h200",
                "--set",    "train.micro_batch=8",
                "--set",    "train.accumulate=1",
                "--set",    "train.blocks_first=false",
                "--set",    "checkpointing.policy=auto",
                "--set",    "checkpointing.offload=[]",
                "--set",    "memory.weights=auto",
                "--set",    "optimizer.place=auto",
                "--budget", budget});
  };
  const Outcome large = plan("100GiB"), small = plan("10GiB"), tiny = plan("1GiB");
  EXPECT_THAT(large.out, HasSubstr("state on device, weights on device"));
  EXPECT_THAT(small.out, HasSubstr("state on host, weights on host"));
  EXPECT_EQ(large.exit_code, 0) << large.err;
  EXPECT_EQ(small.exit_code, 0) << small.err;
  EXPECT_EQ(tiny.exit_code, 3);
  EXPECT_THAT(tiny.err, HasSubstr("the smallest plan needs"));
}

TEST(Activity, SaysOnceWhatTakesLong) {
  testing::internal::CaptureStderr();
  // Until another line has been printed.
  auto await_line = [bytes = off_t{0}]() mutable {
    struct stat captured = {};
    while (fstat(STDERR_FILENO, &captured) == 0 && captured.st_size == bytes) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    bytes = captured.st_size;
  };
  { const trainer::Activity quick("adding"); }
  {
    const trainer::Activity slow("looking for something");
    {
      const trainer::Activity within("turning a stone");
      await_line();
    }
    { const trainer::Activity quick("looking under it"); }
    await_line();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "turning a stone …\nlooking for something …\n");
}

TEST(BoundCores, AreNotedWhenMpirunHasBoundThem) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) == 1) GTEST_SKIP() << "there is one core";
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  unsetenv("OMPI_MCA_orte_bound_at_launch");
  EXPECT_EQ(trainer::BoundCoresNote(), "");  // by whoever has the right to
  setenv("OMPI_MCA_orte_bound_at_launch", "1", 1);
  EXPECT_THAT(trainer::BoundCoresNote(), HasSubstr(", on 1 of the host's "));
  unsetenv("OMPI_MCA_orte_bound_at_launch");
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

}  // namespace
}  // namespace plimsoll
