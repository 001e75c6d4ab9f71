// Blocks that offload, evenly among blocks that don't: on whole programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "memory/candidates.h"
#include "memory/solver.h"
#include "tests/memory/solver_programs.h"

namespace plimsoll::memory {
namespace {

using graph::Retention;

// A GPU on which the largest result of a block takes two blocks' forward passes to copy.
CostModel SlowLink(const graph::Program& program, int blocks, double bytes) {
  CostModel cost(DeviceRates::Gpu());
  const std::vector<double> seconds = cost.NodeSeconds(program);
  double forward = 0;
  for (size_t n = 0; n < seconds.size(); ++n) {
    if (program.nodes()[n].phase == graph::Phase::kForward) forward += seconds[n];
  }
  const double rate = bytes / (1.8 * forward / blocks);
  cost.SetLink({rate, rate, rate, rate, true});
  return cost;
}

constexpr int kBlocks = 12;

struct SlowGpu {
  std::shared_ptr<const graph::Program> program = Train(Kind::kFeedForward, kBlocks);
  CostModel cost = SlowLink(*program, kBlocks, 16 * 64 * 128 * 4);
  Variant variant = OffloadingVariantOf(program, cost);
};

struct Result {
  int64_t arena = 0;
  double seconds = 0;
};

// The blocks before `count` offload.
Result OfPrefix(const SlowGpu& gpu, int count) {
  Fates assignment(gpu.variant.decisions.size(), Retention::kSave);
  for (size_t d = 0; d < assignment.size(); ++d) {
    const Decision& decision = gpu.variant.decisions[d];
    if (decision.offload && decision.block < count) assignment[d] = Retention::kOffload;
  }
  const std::vector<StepProgram> step = gpu.variant.build(assignment);
  const graph::Program* programs[] = {step[0].program.get()};
  return {MakePlan(programs).arena_bytes, gpu.cost.ProgramSeconds(*programs[0])};
}

TEST(Spread, WinsOverAPrefix) {
  const SlowGpu gpu;
  Solver solver({gpu.variant}, gpu.cost);
  const Result keep = OfPrefix(gpu, 0), third = OfPrefix(gpu, kBlocks / 3);
  ASSERT_LT(third.arena, keep.arena);
  const Candidate* chosen = solver.Fastest({.device = third.arena});
  ASSERT_NE(chosen, nullptr);
  EXPECT_LE(chosen->exact->arena_bytes, third.arena);
  EXPECT_GT(third.seconds, 1.02 * keep.seconds);
  double copies = 0;  // there and back
  for (size_t d = 0; d < chosen->fates.size(); ++d) {
    if (chosen->fates[d] != Retention::kOffload) continue;
    copies += 2 * gpu.variant.decisions[d].copy_seconds;
  }
  // Nothing waits for them.
  EXPECT_LT(chosen->exact->seconds, 1.01 * keep.seconds + gpu.cost.rates().copies_slow() * copies);
  for (int count = 0; count <= kBlocks; ++count) {
    const Result prefix = OfPrefix(gpu, count);
    if (prefix.arena <= third.arena) {
      EXPECT_LT(chosen->exact->seconds, prefix.seconds) << count;
    }
  }
  std::vector<int> blocks;
  for (size_t d = 0; d < chosen->fates.size(); ++d) {
    if (chosen->fates[d] == Retention::kOffload) {
      blocks.push_back(gpu.variant.decisions[d].block);
    }
  }
  ASSERT_GE(blocks.size(), 4u);
  for (size_t i = 1; i < blocks.size(); ++i) EXPECT_GE(blocks[i] - blocks[i - 1], 2);
}

TEST(Spread, IsMeasuredOnItsPrograms) {
  const SlowGpu gpu;
  Solver solver({gpu.variant}, gpu.cost);
  int offloading = 0;
  for (size_t i = 0; i < solver.CandidatesOf(0).size(); ++i) {
    const Candidate& candidate = solver.CandidatesOf(0)[i];
    if (std::ranges::find(candidate.fates, Retention::kOffload) == candidate.fates.end()) {
      continue;
    }
    ++offloading;
    EXPECT_EQ(candidate.predicted.kind, Cost::Kind::kExact);
    const ExactPlan& exact = solver.Exact(0, i);
    EXPECT_EQ(candidate.predicted.device_bytes, exact.max_live_bytes);
    EXPECT_NEAR(candidate.predicted.seconds, exact.seconds, 1e-9 * exact.seconds);
  }
  EXPECT_GE(offloading, 5);
}

TEST(Spread, MoreMemoryIsNeverSlower) {
  const SlowGpu gpu;
  Solver solver({gpu.variant}, gpu.cost);
  const int64_t least = solver.Smallest().exact->needed_bytes;
  const int64_t most = solver.Fastest({})->exact->needed_bytes;
  ASSERT_LT(least, most);
  double slower = 1e9;
  for (int i = 0; i <= 40; ++i) {
    const int64_t budget = least + (most - least) * i / 40;
    const Candidate* plan = solver.Fastest({.device = budget});
    ASSERT_NE(plan, nullptr);
    EXPECT_LE(plan->exact->arena_bytes, budget);
    EXPECT_LE(plan->exact->seconds, slower);
    slower = plan->exact->seconds;
  }
}

TEST(Spread, IsTheSameWithAnyNumberOfThreads) {
  const SlowGpu gpu;
  ThreadPool one(1), three(3);
  const KeptUse keep = MeasureKept(gpu.variant, PlanOptions().alignment, gpu.cost);
  const std::vector<Candidate> a = FindCandidates(gpu.variant, 0, keep, gpu.cost, {.pool = &one}),
                               b = FindCandidates(gpu.variant, 0, keep, gpu.cost, {.pool = &three});
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].fates, b[i].fates);
    EXPECT_EQ(a[i].predicted.seconds, b[i].predicted.seconds);
    EXPECT_EQ(a[i].predicted.device_bytes, b[i].predicted.device_bytes);
  }
}

}  // namespace
}  // namespace plimsoll::memory
