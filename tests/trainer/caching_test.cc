// `memory.allocator: caching`: whole steps with the caching allocator, compared with the planned
// arena.
#include <gtest/gtest.h>

#include "runtime/caching_allocator/caching_allocation.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using runtime::AllocatorStats;
using runtime::CachingOptions;
using runtime::Replay;
using runtime::ReplayResult;

std::vector<TinyRun> Runs() {
  std::vector<TinyRun> runs;
  for (const models::ModelSpec& spec : {TinyGpt2(), TinyLlama()}) {
    for (int64_t accumulate : {1, 3}) {
      TinyRun run;
      run.spec = spec;
      run.spec.dropout = spec.family == "gpt2" ? 0.1 : 0;
      run.accumulate = accumulate;
      run.evaluate = true;
      runs.push_back(run);
      // Saved activations are offloaded or recomputed.
      run.checkpointing.policy = checkpointing::Options::Policy::kBlock;
      run.checkpointing.offload.patterns = {"*"};
      runs.push_back(run);
    }
  }
  return runs;
}

CompiledStep CompileTiny(const models::ModelSpec& spec, int64_t micro_batch, int64_t accumulate,
                         const checkpointing::Options& checkpointing = {}) {
  CompileOptions options;
  options.checkpointing = checkpointing;
  options.micro_batch = micro_batch;
  options.sequence = 16;
  options.accumulate = accumulate;
  options.evaluate = true;
  options.threads = 2;
  return Compile(*models::MakeModel(spec), options);
}

TEST(Caching, StepsAreBitEqualToPlanned) {
  for (TinyRun run : Runs()) {
    const TinyResult planned = Train(run);
    for (const CachingOptions& options :
         {CachingOptions{}, CachingOptions{.in_place = false},
          CachingOptions{.empty_cache_every = 1}, CachingOptions{.preallocate_bytes = 1 << 20}}) {
      run.caching = options;
      for (bool poison : {false, true}) {
        run.executor.poison = poison;
        const TinyResult caching = Train(run);
        EXPECT_EQ(planned.losses, caching.losses);
        EXPECT_EQ(planned.grad_norms, caching.grad_norms);
        EXPECT_EQ(planned.weights, caching.weights);
        EXPECT_GT(caching.caching.peak_reserved, 0);
        EXPECT_EQ(caching.host_caching.peak_reserved > 0, planned.host_arena_bytes > 0);
      }
    }
  }
}

// A run takes the memory that its replay predicts.
TEST(Caching, ARunTakesWhatItsReplaySays) {
  for (TinyRun run : Runs()) {
    for (int64_t empty_cache_every : {0, 1, 2, 5}) {
      run.caching = CachingOptions{.empty_cache_every = empty_cache_every};
      const CompiledStep compiled =
          CompileTiny(run.spec, run.micro_batch, run.accumulate, run.checkpointing);
      const ReplayResult replay = Replay(compiled.planned(), *run.caching);
      EXPECT_TRUE(replay.steady);
      run.steps = replay.rounds;
      const TinyResult result = Train(run);
      EXPECT_EQ(result.caching, replay.device);
      EXPECT_EQ(result.host_caching, replay.host);
    }
  }
}

TEST(Caching, OftenClearedItAsksForTheSameAgain) {
  const CompiledStep compiled = CompileTiny(TinyGpt2(), 64, 1);
  const ReplayResult kept = Replay(compiled.planned());
  const ReplayResult cleared = Replay(compiled.planned(), {.empty_cache_every = 1});
  EXPECT_EQ(kept.device.segments_returned, 0);
  EXPECT_GT(cleared.device.segments_returned, cleared.rounds);
  EXPECT_LE(cleared.device.peak_reserved, kept.device.peak_reserved);
}

// The planned arena needs less than is reserved for the same tensors, which in turn is less than is
// reserved without sharing in place.
TEST(Caching, ReservesMoreThanThePlan) {
  for (const models::ModelSpec& spec : {TinyGpt2(), TinyLlama()}) {
    const CompiledStep compiled = CompileTiny(spec, 128, 1);
    const AllocatorStats shared = Replay(compiled.planned()).device;
    const AllocatorStats apart = Replay(compiled.planned(), {.in_place = false}).device;
    EXPECT_GT(shared.peak_reserved, compiled.plan.arena_bytes);
    EXPECT_GE(apart.peak_requested, shared.peak_requested);
    EXPECT_GE(shared.peak_allocated, shared.peak_requested);
  }
}

TEST(Caching, TheRoundIsOneStepAndItsEvaluation) {
  const CompiledStep compiled = CompileTiny(TinyGpt2(), 2, 4);
  std::vector<std::pair<std::string, int64_t>> runs;
  for (const auto& [program, times] : compiled.planned().round) {
    runs.emplace_back(compiled.programs[program]->name(), times);
  }
  EXPECT_EQ(runs,
            (std::vector<std::pair<std::string, int64_t>>{
                {"train_first", 1}, {"train_middle", 2}, {"train_last", 1}, {"evaluate", 1}}));
}

}  // namespace
}  // namespace plimsoll::trainer
