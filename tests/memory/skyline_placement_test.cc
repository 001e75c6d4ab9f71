#include "memory/skyline_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "memory/placement.h"
#include "tests/memory/lowest_extent.h"
#include "tests/memory/random_buffers.h"
#include "tests/memory/tilings.h"

namespace plimsoll::memory {
namespace {

TEST(SkylinePlacement, DecidesAsAllOrdersDo) {
  int above_max_live = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Interval> intervals =
        RandomBuffers(seed, 4 + seed % 4, 4 + seed % 7, 2 + seed % 5, seed % 2 == 0 ? 5 : 30,
                      /*least=*/0);
    if (seed % 40 == 0) {  // At no time are more than 6 bytes alive, and none ends at 6.
      intervals = {{3, 0, 1}, {3, 0, 0}, {2, 1, 3}, {1, 1, 2}, {2, 2, 3}, {2, 3, 4}, {3, 4, 4}};
      intervals[seed / 40 % 7].size *= seed == 0 ? 1 : 2;
    }
    const int64_t optimum = LowestExtent(intervals);
    const ExactPlacement placed = PlaceAlongSkyline(intervals, optimum, 1'000'000, seed % 3);
    ASSERT_EQ(placed.verdict, Verdict::kPlaced);
    for (int64_t offset : placed.offsets) ASSERT_NE(offset, kUnplaced);
    ExpectApart(intervals, placed.offsets, optimum);
    EXPECT_EQ(PlaceAlongSkyline(intervals, optimum - 1, 1'000'000, seed % 3).verdict,
              Verdict::kImpossible);
    above_max_live += optimum > Place(intervals, {.alignment = 1, .exact_work = 0}).max_live;
  }
  EXPECT_GE(above_max_live, 1);
}

TEST(SkylinePlacement, StopsAtItsWorkWithADeadEnd) {
  const Tiling tiling{.parts = 400, .times = 2000, .bytes = 100'000, .removed = 20};
  const std::vector<Interval> intervals = MakeTiling(1, tiling);
  for (int64_t work : {int64_t{0}, int64_t{200'000}, int64_t{1'000'000}}) {
    SCOPED_TRACE(work);
    const ExactPlacement placed = PlaceAlongSkyline(intervals, tiling.bytes, work);
    ASSERT_EQ(placed.verdict, Verdict::kUndecided);
    EXPECT_GE(placed.work, work);
    EXPECT_LE(placed.work, work + 100'000);  // what one node looks at
    ExpectApart(intervals, placed.offsets, tiling.bytes);
    const auto missing = std::count(placed.offsets.begin(), placed.offsets.end(), kUnplaced);
    EXPECT_GE(missing, 1);
    EXPECT_LT(missing, work == 0 ? 401 : 380);
    EXPECT_EQ(PlaceAlongSkyline(intervals, tiling.bytes, work).offsets, placed.offsets);
  }
}

TEST(SkylinePlacement, EdgeCases) {
  EXPECT_EQ(PlaceAlongSkyline({}, 0, 100).verdict, Verdict::kPlaced);
  const std::vector<Interval> empty{{0, 0, 3}, {5, 1, 2}, {0, 1, 1}};
  const ExactPlacement placed = PlaceAlongSkyline(empty, 5, 1000);
  ASSERT_EQ(placed.verdict, Verdict::kPlaced);
  ExpectApart(empty, placed.offsets, 5);
  EXPECT_EQ(PlaceAlongSkyline(empty, 4, 1000).verdict, Verdict::kImpossible);
  const std::vector<Interval> many(kMostExactBuffers + 1, {1, 0, 0});
  EXPECT_EQ(PlaceAlongSkyline(many, kMostExactBuffers + 1, 1'000'000).verdict, Verdict::kUndecided);
}

struct Case {
  Tiling tiling;
  uint32_t seed;
};

// Parts that are alike and parts that are not, by straight cuts, pinwheels and both.
std::vector<Case> Cases(bool even, int spoiled_share) {
  std::vector<Case> cases;
  for (double pinwheels : {0.0, 0.3, 1.0}) {
    for (int parts : {50, 150, 302}) {
      for (uint32_t seed : {0u, 1u}) {
        Tiling tiling{.parts = parts,
                      .times = seed == 0 ? 4 * parts : 1000,
                      .bytes = seed == 0 ? 1000 : 100'000,
                      .pinwheels = pinwheels,
                      .even = even};
        if (spoiled_share > 0) tiling.removed = parts / spoiled_share;
        cases.push_back({tiling, seed});
      }
    }
  }
  return cases;
}

// Returns how far the extent is above the bound, as a part of it.
double ExpectSound(const std::vector<Interval>& intervals, int64_t capacity) {
  const Placement greedy = Place(intervals, {.alignment = 1, .exact_work = 0});
  const Placement placement = Place(intervals, {.alignment = 1});
  EXPECT_LE(placement.extent, greedy.extent);
  EXPECT_GE(placement.extent, placement.max_live);
  EXPECT_LE(placement.max_live, capacity);
  ExpectApart(intervals, placement.offsets, placement.extent);
  EXPECT_EQ(Place(intervals, {.alignment = 1}).offsets, placement.offsets);
  EXPECT_TRUE(placement.proved || placement.extent > placement.max_live);
  return static_cast<double>(placement.extent) / static_cast<double>(placement.max_live) - 1;
}

TEST(SkylinePlacement, FillsTilingsOfLikeParts) {
  int greedy_fails = 0;
  for (const Case& c : Cases(true, 0)) {
    SCOPED_TRACE(testing::Message() << c.tiling.parts << " parts, " << c.tiling.pinwheels
                                    << " pinwheels, seed " << c.seed);
    const std::vector<Interval> intervals = MakeTiling(c.seed, c.tiling);
    EXPECT_LE(ExpectSound(intervals, c.tiling.bytes), 0.02);
    const Placement greedy = Place(intervals, {.alignment = 1, .exact_work = 0});
    greedy_fails += static_cast<double>(greedy.extent) > 1.1 * static_cast<double>(greedy.max_live);
  }
  EXPECT_GE(greedy_fails, 8);
}

TEST(SkylinePlacement, NearlyFillsTilingsOfUnlikeParts) {
  double sum = 0;
  int above = 0;
  const std::vector<Case> cases = Cases(false, 0);
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.tiling.parts << " parts, " << c.tiling.pinwheels
                                    << " pinwheels, seed " << c.seed);
    const double excess = ExpectSound(MakeTiling(c.seed, c.tiling), c.tiling.bytes);
    sum += excess;
    above += excess > 0.02;
  }
  EXPECT_LE(sum / static_cast<double>(cases.size()), 0.01);
  EXPECT_LE(above, 3);
}

TEST(SkylinePlacement, IsSoundWherePartsAreMissing) {
  for (bool even : {false, true}) {
    for (const Case& c : Cases(even, 20)) {
      if (c.tiling.parts > 150) continue;
      SCOPED_TRACE(testing::Message() << c.tiling.parts << " parts, " << c.tiling.pinwheels
                                      << " pinwheels, seed " << c.seed);
      EXPECT_LE(ExpectSound(MakeTiling(c.seed, c.tiling), c.tiling.bytes), 0.25);
    }
  }
}

}  // namespace
}  // namespace plimsoll::memory
