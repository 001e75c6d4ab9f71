// Memory measured from outside: the process's peak resident memory during start-up, timing of ops,
// steps, evaluation, generation and snapshots stays within the arena plus the needs of the program
// itself and its libraries.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

// What a run takes in addition to its arena and to what planning takes, which is the program itself
// (in builds with CUDA 200 MiB of NVIDIA's libraries) and the compiled programs: executors, index
// of the data, one piece of a snapshot at a time. Measured as 3.8 to 4.6 MiB.
constexpr int64_t kBesidesTheArena = 6 << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST(ProcessMemory, StaysWithinTheArenaPlusAConstant) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep shadow memory of their own";
  const TempFolder folder;
  std::string words;
  while (words.size() < 200'000) words += "the quick brown fox jumps over the lazy dog\n";
  const std::string text = folder.Write("text.txt", words);
  for (int64_t width : {64, 256}) {
    const std::string run = folder / ("run" + std::to_string(width));
    const std::string yaml = folder.Write(
        "run.yaml", "model: {family: gpt2, layers: 3, width: " + std::to_string(width) +
                        ", heads: 4, sequence: 128}\n"
                        "data: {train: " +
                        text +
                        ", format: text, tokenizer: byte, eval_fraction: 0.1}\n"
                        "train: {steps: 4, micro_batch: 8, eval_every: 2, sample_every: 2}\n"
                        "sample: {prompt: the, tokens: 4}\n"
                        "save: {every: 2}\n"
                        "device: cpu\n"
                        "run: {dir: " +
                        run + "}\n");
    const Outcome planning =
        ExpectExit(0, RunPlimsoll({"plan", yaml, "--set", "memory.calibrate=false"}));
    // From the beginning, and again from a snapshot.
    for (const char* stop : {"train.stop_after=2", "train.stop_after=0"}) {
      const Outcome outcome =
          ExpectExit(0, RunPlimsoll({"train", yaml, "--resume", "auto", "--set", stop}));
      const auto plan = nlohmann::json::parse(ReadFile(run + "/plan.json"));
      const int64_t arena = plan.at("arena_bytes");
      EXPECT_LE(outcome.peak_resident_bytes,
                planning.peak_resident_bytes + arena + kBesidesTheArena)
          << "width " << width << ": arena " << arena << ", planning "
          << planning.peak_resident_bytes;
      // And the arena is really used.
      EXPECT_GE(outcome.peak_resident_bytes, arena * 9 / 10);
    }
  }
}

// A run that times ops first takes no more for that than its budget, and gives it back.
TEST(ProcessMemory, TimingOpsStaysWithinTheBudget) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep shadow memory of their own";
  const TempFolder folder;
  const std::string yaml = folder.Write(
      "run.yaml",
      "model: {family: gpt2, layers: 3, width: 256, heads: 4, sequence: 128, vocab: 256}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 8, eval_every: 0}\n"
      "checkpointing: {policy: auto}\n"
      "memory: {budget: 48MiB}\n"
      "device: cpu\n"
      "run: {dir: " +
          (folder / "run") + "}\n");
  const Outcome planning =
      ExpectExit(0, RunPlimsoll({"plan", yaml, "--set", "memory.calibrate=false"}));
  const Outcome outcome = ExpectExit(0, RunShell("export XDG_CACHE_HOME='" + (folder / "cache") +
                                                 "'; exec $PLIMSOLL train '" + yaml + "'"));
  ASSERT_EQ(folder.Names("cache/plimsoll").size(), 1u);
  const auto plan = nlohmann::json::parse(ReadFile(folder / "run/plan.json"));
  const int64_t arena = plan.at("arena_bytes");
  EXPECT_LE(outcome.peak_resident_bytes, planning.peak_resident_bytes + arena + kBesidesTheArena)
      << "arena " << arena << ", planning " << planning.peak_resident_bytes;
}

}  // namespace
}  // namespace plimsoll
