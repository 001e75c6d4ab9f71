// The candidates of one variant, before a budget is given.
#include "memory/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tests/memory/solver_programs.h"

namespace plimsoll::memory {
namespace {

using graph::Retention;

// Counts how often each assignment was turned into programs.
class Realized {
 public:
  Variant Watch(Variant variant) {
    variant.build = [this, inner = variant.build](const Fates& assignment) {
      const std::lock_guard lock(mutex_);
      ++times_[assignment];
      return inner(assignment);
    };
    return variant;
  }
  const std::map<Fates, int>& times() const { return times_; }

 private:
  std::mutex mutex_;
  std::map<Fates, int> times_;
};

std::map<Fates, int> RealizedBySearch(const Variant& variant, int64_t work) {
  Realized realized;
  ThreadPool pool(1);
  const CostModel cost;
  const SolverOptions options = {.work = work, .pool = &pool};
  const KeptUse keep = MeasureKept(variant, options.plan.alignment, cost);
  FindCandidates(realized.Watch(variant), 0, keep, cost, options);
  return realized.times();
}

std::vector<Candidate> Find(const Variant& variant, const SolverOptions& options = {},
                            int threads = 2) {
  ThreadPool pool(threads);
  SolverOptions given = options;
  given.pool = &pool;
  const CostModel cost;
  return FindCandidates(variant, 0, MeasureKept(variant, given.plan.alignment, cost), cost, given);
}

// Beyond the plans that are measured with no work allowed, the search makes each single change
// once.
TEST(Candidates, ASingleChangeIsMeasuredOnce) {
  const Variant variant = VariantOf(Train(Kind::kMixed, 2));
  const std::map<Fates, int> needed = RealizedBySearch(variant, 0);
  const std::map<Fates, int> all = RealizedBySearch(variant, 100'000);
  ASSERT_GT(all.size(), needed.size());
  for (const auto& [assignment, times] : all) {
    const auto before = needed.find(assignment);
    EXPECT_LE(times - (before == needed.end() ? 0 : before->second), 1);
  }
}

// With any amount of allowed work, the search ends when no single change gives anything new.
TEST(Candidates, TheSearchEndsByItself) {
  const Variant variant = VariantOf(Train(Kind::kFeedForward, 2));
  EXPECT_EQ(RealizedBySearch(variant, 1'000'000), RealizedBySearch(variant, 100'000'000));
}

// In a search without chains of blocks, which take no other candidate's place.
TEST(Candidates, NoneIsBeatenButNamedPolicies) {
  for (const int64_t work : {0, 30'000}) {
    const std::vector<Candidate> found =
        Find(VariantOf(Train(Kind::kAttention, 4)), {.options = 9, .work = work});
    ASSERT_GE(found.size(), 5u);
    for (const Candidate& candidate : found) {
      if (!candidate.policy.empty()) continue;
      EXPECT_TRUE(std::none_of(found.begin(), found.end(),
                               [&](const Candidate& other) {
                                 return &other != &candidate && other.policy.empty() &&
                                        other.predicted.seconds <= candidate.predicted.seconds &&
                                        other.predicted.device_bytes <=
                                            candidate.predicted.device_bytes;
                               }))
          << candidate.predicted.seconds << " s, " << candidate.predicted.device_bytes;
    }
  }
}

TEST(Candidates, NamedPoliciesStayAndMayBeAll) {
  Variant variant = VariantOf(Train(Kind::kFeedForward, 3));
  // Slower than keeping all, and no smaller.
  Fates drop_last(variant.decisions.size(), Retention::kSave);
  drop_last.back() = Retention::kRecompute;
  variant.policies.emplace_back("drop", drop_last);
  const auto named = [](const std::vector<Candidate>& found) {
    std::vector<std::string> names;
    for (const Candidate& candidate : found) {
      if (!candidate.policy.empty()) names.push_back(candidate.policy);
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(named(Find(variant)), (std::vector<std::string>{"drop", "none"}));
  EXPECT_LE(Find(variant, {.options = 0}).size(), 3u);  // and the one that keeps everything
}

TEST(Candidates, MoreWorkNeverLosesAPlan) {
  const Variant variant = VariantOf(Train(Kind::kMixed, 3));
  const std::vector<Candidate> few = Find(variant, {.work = 0}), more = Find(variant);
  for (const Candidate& candidate : few) {
    EXPECT_TRUE(std::any_of(more.begin(), more.end(), [&](const Candidate& other) {
      return other.predicted.seconds <= candidate.predicted.seconds * (1 + 1e-9) &&
             other.predicted.device_bytes <= candidate.predicted.device_bytes;
    }));
  }
}

// Whether a block's output is computed again with the next block's.
bool HasChain(const Variant& variant, const Candidate& candidate) {
  for (size_t d = 0; d < variant.decisions.size(); ++d) {
    const bool output = variant.decisions[d].tensors.front().ends_with(".out");
    if (output && candidate.fates[d] == Retention::kRecompute) return true;
  }
  return false;
}

TEST(Candidates, ChainsAreAmongThemForAnyNumberOfThreads) {
  const Variant variant = VariantOf(Train(Kind::kAttention, 12));
  const std::vector<Candidate> one = Find(variant, {.work = 0}, 1),
                               three = Find(variant, {.work = 0}, 3);
  ASSERT_EQ(one.size(), three.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].fates, three[i].fates);
    EXPECT_EQ(one[i].predicted.seconds, three[i].predicted.seconds);
    EXPECT_EQ(one[i].predicted.device_bytes, three[i].predicted.device_bytes);
  }
  EXPECT_GE(std::ranges::count_if(one, [&](const Candidate& c) { return HasChain(variant, c); }),
            5);
}

}  // namespace
}  // namespace plimsoll::memory
