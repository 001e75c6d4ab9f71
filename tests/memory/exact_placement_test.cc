#include "memory/exact_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "memory/placement.h"
#include "tests/memory/lowest_extent.h"
#include "tests/memory/random_buffers.h"

namespace plimsoll::memory {
namespace {

// Rectangles that fill a square without gaps, made by cutting it again and again.
std::vector<Interval> Dissection(uint32_t seed, int pieces, int64_t side) {
  struct Piece {
    int64_t offset;
    Interval interval;
  };
  std::mt19937 random(seed);
  std::vector<Piece> all{{0, {side, 0, static_cast<int32_t>(side) - 1}}};
  while (static_cast<int>(all.size()) < pieces) {
    Piece& old = all[random() % all.size()];
    Piece cut = old;
    const int32_t duration = old.interval.death - old.interval.birth + 1;
    if (random() % 2 == 0 && old.interval.size > 1) {
      const auto lower = 1 + static_cast<int64_t>(random() % (old.interval.size - 1));
      cut.offset += lower;
      cut.interval.size -= lower;
      old.interval.size = lower;
    } else if (duration > 1) {
      cut.interval.birth += 1 + static_cast<int32_t>(random() % (duration - 1));
      old.interval.death = cut.interval.birth - 1;
    } else {
      continue;
    }
    all.push_back(cut);
  }
  std::vector<Interval> intervals;
  for (const Piece& piece : all) intervals.push_back(piece.interval);
  std::shuffle(intervals.begin(), intervals.end(), random);
  return intervals;
}

// At no time are more than 6 bytes alive, and yet no placement ends at 6.
const std::vector<Interval> kNeedsSeven = {{3, 0, 1}, {3, 0, 0}, {2, 1, 3}, {1, 1, 2},
                                           {2, 2, 3}, {2, 3, 4}, {3, 4, 4}};

void ExpectDecided(const std::vector<Interval>& intervals, int64_t optimum) {
  const ExactPlacement placed = PlaceWithin(intervals, optimum, 1'000'000);
  ASSERT_EQ(placed.verdict, Verdict::kPlaced);
  ExpectApart(intervals, placed.offsets, optimum);
  EXPECT_EQ(PlaceWithin(intervals, optimum - 1, 1'000'000).verdict, Verdict::kImpossible);
  const Placement place = Place(intervals, {.alignment = 1});
  EXPECT_EQ(place.extent, optimum);
  EXPECT_TRUE(place.proved);
}

TEST(ExactPlacement, DecidesAsAllOrdersDo) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Interval> intervals =
        RandomBuffers(seed, 4 + seed % 4, 4 + seed % 7, 2 + seed % 5, seed % 2 == 0 ? 4 : 30);
    ExpectDecided(intervals, LowestExtent(intervals));
  }
}

// Random buffers beside some that need more than is alive, in both directions of time.
TEST(ExactPlacement, ProvesWhatIsAboveMaxLive) {
  int above_max_live = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Interval> intervals = kNeedsSeven;
    intervals.push_back(RandomBuffers(seed, 1, 6, 3, 2)[0]);
    for (Interval& i : intervals) {
      i.size *= 1 + seed % 3;
      if (seed % 2 == 0) i = {i.size, 10 - i.death, 10 - i.birth};
    }
    const int64_t optimum = LowestExtent(intervals);
    ExpectDecided(intervals, optimum);
    above_max_live += optimum > Place(intervals, {.alignment = 1}).max_live;
  }
  EXPECT_GE(above_max_live, 2);

  EXPECT_EQ(PlaceWithin(kNeedsSeven, 6, 1'000'000).verdict, Verdict::kImpossible);
  const Placement aligned = Place(kNeedsSeven, {.alignment = 4});
  EXPECT_EQ(aligned.extent, aligned.max_live);  // sizes are rounded up first
  EXPECT_TRUE(aligned.proved);
  // Unproved, as nothing was searched.
  const Placement placement = Place(kNeedsSeven, {.alignment = 1, .exact_work = 0});
  EXPECT_EQ(placement.extent, 7);
  EXPECT_FALSE(placement.proved);
}

TEST(ExactPlacement, FillsSquaresWithoutGaps) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Interval> intervals = Dissection(seed, 40, 100);
    const ExactPlacement placed = PlaceWithin(intervals, 100, 50'000'000);
    ASSERT_EQ(placed.verdict, Verdict::kPlaced);
    ExpectApart(intervals, placed.offsets, 100);
  }
}

TEST(ExactPlacement, SucceedsWhereGreedyOrdersFail) {
  int failed = 0;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Interval> intervals = Dissection(seed, 150, 1000);
    PlacementOptions options{.alignment = 1, .target = 0, .work = 0, .exact_work = 0};
    const Placement greedy = Place(intervals, options);
    EXPECT_EQ(greedy.nodes, 0);
    EXPECT_EQ(greedy.proved, greedy.extent == 1000);
    options.exact_work = 100'000'000;
    const Placement exact = Place(intervals, options);
    EXPECT_EQ(exact.extent, 1000);
    EXPECT_TRUE(exact.proved);
    ExpectApart(intervals, exact.offsets, 1000);
    failed += greedy.extent > 1000;
    EXPECT_EQ(exact.nodes > 0, greedy.extent > 1000);
  }
  EXPECT_GE(failed, 3);
}

// Too many buffers for the exact search, which places those of the peak alone.
TEST(ExactPlacement, PacksThePeakOfManyBuffers) {
  int better = 0;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Interval> intervals = Dissection(seed, 150, 1000);
    for (Interval i : RandomBuffers(seed, kMostExactBuffers, 4000, 20, 20)) {
      intervals.push_back({i.size, i.birth + 990, i.death + 990});
    }
    PlacementOptions options{.alignment = 1, .target = 0, .work = 0, .exact_work = 0};
    const Placement greedy = Place(intervals, options);
    options.exact_work = 40'000'000;
    const Placement exact = Place(intervals, options);
    ExpectApart(intervals, exact.offsets, exact.extent);
    EXPECT_LE(exact.extent, greedy.extent);
    EXPECT_EQ(exact.proved, exact.extent == exact.max_live);
    better += exact.extent < greedy.extent;
  }
  EXPECT_GE(better, 2);
}

TEST(ExactPlacement, NeverWorseThanTheHeuristicsAndTheSameEachTime) {
  int better = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Interval> intervals = RandomBuffers(seed, 60, 40, 15, 1000);
    PlacementOptions options{.alignment = 64, .target = 0, .work = 20'000, .exact_work = 0};
    const Placement heuristic = Place(intervals, options);
    for (int64_t work : {1'000, 100'000, 1'000'000}) {
      options.exact_work = work;
      const Placement exact = Place(intervals, options);
      EXPECT_LE(exact.extent, heuristic.extent);
      better += exact.extent < heuristic.extent;
      const Placement again = Place(intervals, options);
      EXPECT_EQ(exact.offsets, again.offsets);
      EXPECT_EQ(exact.nodes, again.nodes);
      EXPECT_EQ(exact.proved, again.proved);
    }
  }
  EXPECT_GE(better, 10);
}

TEST(ExactPlacement, KeepsToItsWork) {
  const std::vector<Interval> intervals = RandomBuffers(1, 200, 150, 60, 1'000'000);
  const int64_t max_live = Place(intervals, {.alignment = 1, .exact_work = 0}).max_live;
  int64_t node = 0;  // at most
  for (const Interval& i : intervals) node += i.death - i.birth + 5;
  for (int64_t work : {int64_t{0}, int64_t{10'000}, int64_t{1'000'000}}) {
    const ExactPlacement placement = PlaceWithin(intervals, max_live, work);
    EXPECT_EQ(placement.verdict, Verdict::kUndecided);
    EXPECT_LE(placement.work, work + node);
    EXPECT_GE(placement.work, work);
  }
}

TEST(ExactPlacement, LeavesManyBuffersUndecided) {
  const std::vector<Interval> many(kMostExactBuffers + 1, {1, 0, 0});
  EXPECT_EQ(PlaceWithin(many, kMostExactBuffers + 1, 1'000'000).verdict, Verdict::kUndecided);
}

TEST(ExactPlacement, EdgeCases) {
  EXPECT_EQ(PlaceWithin({}, 0, 100).verdict, Verdict::kPlaced);
  const std::vector<Interval> empty{{0, 0, 3}, {5, 1, 2}, {0, 1, 1}};
  const ExactPlacement placed = PlaceWithin(empty, 5, 1000);
  ASSERT_EQ(placed.verdict, Verdict::kPlaced);
  ExpectApart(empty, placed.offsets, 5);
  EXPECT_EQ(PlaceWithin(empty, 4, 1000).verdict, Verdict::kImpossible);
  // A target is reached, and nothing is known of lower extents.
  const Placement enough = Place(kNeedsSeven, {.alignment = 1, .target = 7});
  EXPECT_FALSE(enough.proved);
  EXPECT_EQ(enough.nodes, 0);
}

}  // namespace
}  // namespace plimsoll::memory
