// The budget solver on small programs: compared with trying every assignment, and its laws.
#include "memory/solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/memory/solver_programs.h"

namespace plimsoll::memory {
namespace {

using graph::Program;
using graph::Retention;

struct Point {
  int64_t arena;
  double seconds;
};

// Every assignment, planned.
std::vector<Point> BruteForce(const Variant& variant, const CostModel& cost) {
  std::vector<Point> points;
  const size_t decisions = variant.decisions.size();
  for (uint32_t mask = 0; mask < (1u << decisions); ++mask) {
    Fates assignment;
    for (size_t d = 0; d < decisions; ++d) {
      assignment.push_back((mask >> d & 1) != 0 ? Retention::kRecompute : Retention::kSave);
    }
    const std::vector<StepProgram> step = variant.build(assignment);
    const Program* programs[] = {step[0].program.get()};
    points.push_back({MakePlan(programs).arena_bytes, cost.ProgramSeconds(*programs[0])});
  }
  return points;
}

class AgainstBruteForce : public testing::TestWithParam<std::tuple<Kind, int>> {};

TEST_P(AgainstBruteForce, WithinTwoPercentOfTheBest) {
  const auto [kind, blocks] = GetParam();
  const Variant variant = VariantOf(Train(kind, blocks));
  ASSERT_GE(variant.decisions.size(), 6u);
  ASSERT_LE(variant.decisions.size(), 10u);
  const CostModel cost;
  const std::vector<Point> all = BruteForce(variant, cost);
  int64_t least = all[0].arena, most = all[0].arena;
  for (const Point& point : all) {
    least = std::min(least, point.arena);
    most = std::max(most, point.arena);
  }
  ASSERT_LT(least, most);
  Solver solver({variant}, cost);
  EXPECT_EQ(solver.Smallest().exact->arena_bytes, least);
  constexpr int kBudgets = 16;
  int differing = 0;
  double before = 0;
  for (int i = 0; i <= kBudgets; ++i) {
    const int64_t budget = least + (most - least) * i / kBudgets;
    double best = 1e9;
    for (const Point& point : all) {
      if (point.arena <= budget) best = std::min(best, point.seconds);
    }
    const Candidate* chosen = solver.Fastest({.device = budget});
    ASSERT_NE(chosen, nullptr) << budget;
    EXPECT_LE(chosen->exact->arena_bytes, budget);
    EXPECT_LE(chosen->exact->seconds, 1.02 * best) << budget;
    EXPECT_GE(chosen->exact->seconds, best * (1 - 1e-9)) << budget;
    differing += best != before;
    before = best;
  }
  EXPECT_GE(differing, 3);  // the budgets lead to different plans
}

INSTANTIATE_TEST_SUITE_P(Programs, AgainstBruteForce,
                         testing::Values(std::tuple(Kind::kFeedForward, 2),
                                         std::tuple(Kind::kAttention, 2),
                                         std::tuple(Kind::kMixed, 2)));

// Every way to part the blocks into chains: all that a chain saves is dropped but for its last
// block's output; a block alone may keep all.
class Partitions {
 public:
  explicit Partitions(const Variant& variant) : variant_(variant), blocks_(variant.blocks()) {
    Extend(0, variant.KeepAll());
  }
  const std::vector<Fates>& all() const { return all_; }

 private:
  void Extend(int block, const Fates& fates) {
    if (block == blocks_) return all_.push_back(fates);
    Extend(block + 1, fates);
    for (int end = block + 1; end <= blocks_; ++end) Extend(end, Dropped(block, end, fates));
  }

  Fates Dropped(int block, int end, Fates fates) const {
    const Decision* output = nullptr;  // of the last block
    for (size_t d = 0; d < fates.size(); ++d) {
      const Decision& decision = variant_.decisions[d];
      if (decision.block < block || decision.block >= end) continue;
      fates[d] = Retention::kRecompute;
      if (decision.block == end - 1) output = &decision;
    }
    const bool out = output != nullptr && output->tensors.front().ends_with(".out");
    if (out) fates[static_cast<size_t>(output - variant_.decisions.data())] = Retention::kSave;
    return fates;
  }

  const Variant& variant_;
  const int blocks_;
  std::vector<Fates> all_;
};

class AgainstChains : public testing::TestWithParam<std::tuple<Kind, int>> {};

// At every budget, the solver's plan is as fast as the best way to part the blocks into chains.
TEST_P(AgainstChains, NoSlowerThanAnyPartition) {
  const auto [kind, blocks] = GetParam();
  const Variant variant = VariantOf(Train(kind, blocks));
  const CostModel cost;
  std::vector<Point> all;
  const Partitions partitions(variant);
  for (const Fates& fates : partitions.all()) {
    const std::vector<StepProgram> step = variant.build(fates);
    const Program* programs[] = {step[0].program.get()};
    all.push_back({MakePlan(programs).arena_bytes, cost.ProgramSeconds(*programs[0])});
  }
  std::ranges::sort(all, {}, &Point::arena);
  Solver solver({variant}, cost);
  EXPECT_LE(solver.Smallest().exact->arena_bytes, all.front().arena);
  double best = 1e9;
  for (const Point& point : all) {
    if (point.seconds >= best) continue;
    best = point.seconds;
    const Candidate* chosen = solver.Fastest({.device = point.arena});
    ASSERT_NE(chosen, nullptr) << point.arena;
    EXPECT_LE(chosen->exact->seconds, 1.001 * best) << point.arena;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, AgainstChains,
                         testing::Values(std::tuple(Kind::kFeedForward, 6),
                                         std::tuple(Kind::kFeedForward, 8),
                                         std::tuple(Kind::kAttention, 7),
                                         std::tuple(Kind::kMixed, 8)));

// The sum over blocks equals the cost of the program made from them.
TEST(Solver, PredictsPeakAndTimeOfMixturesExactly) {
  for (Kind kind : {Kind::kFeedForward, Kind::kAttention}) {
    const CostModel cost;
    Solver solver({VariantOf(Train(kind, 10))}, cost, {.work = 0});
    ASSERT_GT(solver.CandidatesOf(0).size(), 10u);
    for (size_t i = 0; i < solver.CandidatesOf(0).size(); ++i) {
      const ExactPlan& exact = solver.Exact(0, i);
      const Candidate& candidate = solver.CandidatesOf(0)[i];
      EXPECT_EQ(candidate.predicted.device_bytes, exact.max_live_bytes);
      EXPECT_NEAR(candidate.predicted.seconds, exact.seconds, 1e-9 * exact.seconds);
    }
  }
}

TEST(Solver, EarlyBlocksKeepLess) {
  const CostModel cost;
  const Variant variant = VariantOf(Train(Kind::kFeedForward, 8));
  Solver solver({variant}, cost, {.work = 0});
  const int64_t least = solver.Smallest().exact->arena_bytes;
  const int64_t most = solver.Fastest({})->exact->arena_bytes;
  const Candidate* chosen = solver.Fastest({.device = (least + most) / 2});
  ASSERT_NE(chosen, nullptr);
  std::vector<int64_t> kept(8, 0);
  for (size_t d = 0; d < variant.decisions.size(); ++d) {
    const Decision& decision = variant.decisions[d];
    if (chosen->fates[d] == Retention::kSave && decision.block >= 0) {
      kept[decision.block] += decision.bytes;
    }
  }
  EXPECT_LT(kept.front(), kept.back());
}

TEST(Solver, GivesTheSameAnswerEveryTime) {
  const CostModel cost;
  std::vector<Fates> answers;
  for (int i = 0; i < 2; ++i) {
    Solver solver({VariantOf(Train(Kind::kMixed, 4))}, cost);
    const int64_t least = solver.Smallest().exact->arena_bytes;
    answers.push_back(solver.Fastest({.device = least + least / 10})->fates);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(Solver, NothingFitsBelowTheSmallest) {
  const CostModel cost;
  Solver solver({VariantOf(Train(Kind::kFeedForward, 3))}, cost);
  const int64_t least = solver.Smallest().exact->arena_bytes;
  EXPECT_NE(solver.Fastest({.device = least}), nullptr);
  EXPECT_EQ(solver.Fastest({.device = least - 1}), nullptr);
}

// The faster variant is taken where it fits.
TEST(Solver, ChoosesAmongVariants) {
  const CostModel cost;
  Variant wide = VariantOf(Train(Kind::kFeedForward, 4));
  Variant twice = VariantOf(Train(Kind::kFeedForward, 2));
  twice.build = [inner = twice.build](const Fates& assignment) {
    std::vector<StepProgram> step = inner(assignment);
    step[0].times = 5;  // smaller, but slower
    return step;
  };
  Solver both({wide, twice}, cost);
  Solver alone({wide}, cost);
  const int64_t least = alone.Smallest().exact->arena_bytes;
  EXPECT_EQ(both.Fastest({})->variant, 0u);
  EXPECT_EQ(alone.Fastest({.device = least - 1}), nullptr);
  ASSERT_NE(both.Fastest({.device = least - 1}), nullptr);
  EXPECT_EQ(both.Fastest({.device = least - 1})->variant, 1u);
}

// Variants that a bound excludes, by time or by memory, are not searched.
TEST(Solver, SearchesVariantsThatMayWin) {
  const CostModel cost;
  Variant fast = VariantOf(Train(Kind::kFeedForward, 4));
  Variant slow = fast;
  slow.build = [inner = fast.build](const Fates& assignment) {
    std::vector<StepProgram> step = inner(assignment);
    step[0].times = 2;
    return step;
  };
  Solver solver({slow, fast}, cost);
  EXPECT_EQ(solver.searched(), 0u);
  EXPECT_EQ(solver.Fastest({.device = solver.LeastDeviceBytes({true, false}) - 1}), nullptr);
  EXPECT_EQ(solver.searched(), 0u);
  EXPECT_EQ(solver.Fastest({})->variant, 1u);
  EXPECT_EQ(solver.searched(), solver.CandidatesOf(1).size());
  EXPECT_EQ(solver.Fastest({}, {true, false})->variant, 0u);
}

// Programs of variants that cannot fit are not even made.
TEST(Solver, MakesVariantsThatMayFit) {
  const CostModel cost;
  const Variant whole = VariantOf(Train(Kind::kFeedForward, 4));
  const int64_t least = Solver({whole}, cost).LeastDeviceBytes({});
  int made[] = {0, 0};
  std::vector<Variant> variants(2);
  for (size_t i = 0; i < 2; ++i) {
    variants[i].least_device_bytes = i == 0 ? 1000 * least : least;
    variants[i].activations = std::to_string(i);
    variants[i].make = [&, i](Variant& variant) {
      variant = whole;
      ++made[i];
    };
  }
  Solver solver(variants, cost);
  EXPECT_EQ(made[0] + made[1], 0);
  EXPECT_EQ(solver.LeastDeviceBytes({}), least);
  EXPECT_EQ(solver.Fastest({.device = 500 * least})->variant, 1u);
  EXPECT_EQ(made[0], 0);
  EXPECT_EQ(solver.Fastest({})->variant, 0u);
  EXPECT_EQ(solver.variant(0).decisions.size(), whole.decisions.size());
  EXPECT_EQ(made[0] + made[1], 2);
}

// What a bound or a plan elsewhere saves of the search changes no answer that matters.
TEST(Solver, SearchesForWhatIsFasterThanSomethingElse) {
  const CostModel cost;
  const std::vector<Variant> variants = {VariantOf(Train(Kind::kMixed, 4))};
  Solver known(variants, cost);
  const int64_t least = known.Smallest().exact->needed_bytes,
                most = known.Fastest({})->exact->needed_bytes;
  EXPECT_GT(known.LeastSeconds({.device = 1}), 1e9);
  for (int i = 0; i <= 8; ++i) {
    const Budget budget = {.device = least + (most - least) * i / 8};
    const double seconds = known.Fastest(budget)->exact->seconds;
    EXPECT_LE(known.LeastSeconds(budget), seconds);
    Solver solver(variants, cost);
    const Candidate* const same = solver.Fastest(budget, {}, seconds * 1.001);
    ASSERT_NE(same, nullptr);
    EXPECT_EQ(same->exact->seconds, seconds);
    const Candidate* const other = solver.Fastest(budget, {}, seconds * 0.999);
    EXPECT_TRUE(other == nullptr || other->exact->seconds >= seconds);
  }
}

TEST(Solver, TakesTheFirstOfVariantsThatAreEquallyFast) {
  const CostModel cost;
  const Variant variant = VariantOf(Train(Kind::kFeedForward, 4));
  Solver solver({variant, variant}, cost);
  const int64_t least = solver.Smallest().exact->arena_bytes;
  const int64_t most = solver.Fastest({})->exact->arena_bytes;
  for (int i = 0; i <= 8; ++i) {
    EXPECT_EQ(solver.Fastest({.device = least + (most - least) * i / 8})->variant, 0u);
  }
}

TEST(Solver, TheFrontGoesFromFastToSmall) {
  const CostModel cost;
  Solver solver({VariantOf(Train(Kind::kAttention, 6))}, cost);
  const std::vector<const Candidate*> front = solver.Front(8);
  ASSERT_GE(front.size(), 4u);
  for (size_t i = 1; i < front.size(); ++i) {
    EXPECT_LT(front[i]->exact->arena_bytes, front[i - 1]->exact->arena_bytes);
    EXPECT_GE(front[i]->exact->seconds, front[i - 1]->exact->seconds);
  }
  EXPECT_EQ(front.back()->exact->arena_bytes, solver.Smallest().exact->arena_bytes);
}

}  // namespace
}  // namespace plimsoll::memory
