#include "data/prefetch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kRows = 3;

// Sample n is the number n; preparing takes unequally long.
class Numbers final : public Source {
 public:
  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const std::span<int32_t> rows = slots[0].values<int32_t>();
    EXPECT_EQ(slots[0].type.shape.dim(0), std::ssize(rows));
    if (first >= last) throw UserError(std::to_string(first) + " is too much");
    std::this_thread::sleep_for(std::chrono::microseconds(first * 7919 % 300));
    std::iota(rows.begin(), rows.end(), static_cast<int32_t>(first));
    filled += std::ssize(rows);
  }
  mutable std::atomic<int64_t> filled = 0;  // samples
  int64_t last = 1 << 30;
};

std::vector<graph::Slot> Labels(std::vector<int32_t>& values) {
  return {{"labels",
           {graph::DType::kInt32, {std::ssize(values)}},
           std::as_writable_bytes(std::span(values))}};
}

class Prefetch : public testing::TestWithParam<int> {
 protected:
  std::vector<int32_t> Batch(Prefetcher& prefetcher, int64_t number) {
    std::vector<int32_t> values(kRows, -1);
    prefetcher.Fill(number, Labels(values));
    return values;
  }
  static std::vector<int32_t> From(int32_t first) { return {first, first + 1, first + 2}; }

  Numbers source_;
};

TEST_P(Prefetch, GivesEachBatchWhateverTheNumberOfThreads) {
  Prefetcher prefetcher(source_, GetParam(), [](int64_t k) { return 10 * k; });
  for (int32_t k = 5; k < 200; ++k) EXPECT_EQ(Batch(prefetcher, k), From(10 * k));
  // Another place, and back.
  for (const int32_t k : {3, 4, 5, 77, 78, 0, 1}) EXPECT_EQ(Batch(prefetcher, k), From(10 * k));
  EXPECT_GT(prefetcher.busy_seconds(), 0);
  EXPECT_EQ(prefetcher.bytes(), PrefetchPlaces(GetParam(), kRows) * kRows * 4);
}

TEST_P(Prefetch, WorksAhead) {
  Prefetcher prefetcher(source_, GetParam(), [](int64_t k) { return k; });
  Batch(prefetcher, 0);
  // The batch, and as many as there is room for.
  const int64_t all = (PrefetchPlaces(GetParam(), kRows) + 1) * kRows;
  for (int i = 0; i < 2000 && source_.filled < all; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(source_.filled, all);
}

TEST_P(Prefetch, ForgetsWhatWasPrepared) {
  std::atomic<int64_t> shift = 0;
  Prefetcher prefetcher(source_, GetParam(), [&](int64_t k) { return k + shift; });
  EXPECT_EQ(Batch(prefetcher, 0), From(0));
  shift = 100;
  prefetcher.Forget();
  EXPECT_EQ(Batch(prefetcher, 1), From(101));
}

TEST_P(Prefetch, PassesErrorsOnWhereTheBatchIsAskedFor) {
  source_.last = 41;
  Prefetcher prefetcher(source_, GetParam(), [](int64_t k) { return 10 * k; });
  for (int32_t k = 0; k < 4; ++k) EXPECT_EQ(Batch(prefetcher, k), From(10 * k));
  // The first row that has one: 41 of 40, 41, 42.
  ExpectUserError([&] { Batch(prefetcher, 4); }, {"41 is too much"});
  EXPECT_EQ(Batch(prefetcher, 2), From(20));
}

// Places that tell when they are awaited.
class Watched final : public BatchMemory {
 public:
  Watched(std::vector<graph::Slot> like, int places) : memory_(like, places), awaited(places) {}
  int places() const override { return memory_.places(); }
  std::span<const graph::Slot> slots(int place) const override { return memory_.slots(place); }
  void Await(int place) override {
    ++awaited[static_cast<size_t>(place)];
    if (fails) throw InternalError("the device has failed");
  }
  int32_t FirstOf(int place) const { return slots(place)[0].values<int32_t>()[0]; }

 private:
  OwnBatchMemory memory_;

 public:
  std::vector<std::atomic<int>> awaited;  // by place
  std::atomic<bool> fails = false;
};

TEST_P(Prefetch, LendsPlacesThatStayAsTheyAre) {
  std::vector<int32_t> like(kRows);
  Watched memory(Labels(like), 3);
  Prefetcher prefetcher(
      source_, GetParam(), [](int64_t k) { return 10 * k; }, memory);
  EXPECT_EQ(prefetcher.bytes(), 3 * kRows * 4);
  const int first = prefetcher.Lease(6), second = prefetcher.Lease(7);
  EXPECT_EQ(prefetcher.Lease(8), 2);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_THROW(prefetcher.Lease(9), InternalError);
  EXPECT_EQ(memory.FirstOf(first), 60);
  prefetcher.GiveBack(second);  // in any order
  EXPECT_THROW(prefetcher.GiveBack(second), InternalError);
  prefetcher.GiveBack(first);
  EXPECT_EQ(prefetcher.Lease(9), first);
  EXPECT_EQ(memory.FirstOf(first), 90);
  EXPECT_EQ(prefetcher.Lease(10), second);
  EXPECT_EQ(memory.FirstOf(second), 100);
  EXPECT_EQ(memory.FirstOf(2), 80);
  for (const auto& times : memory.awaited) EXPECT_GE(times, 1);
  EXPECT_EQ(memory.awaited[0], 2);
}

TEST_P(Prefetch, BeginsAnewAroundPlacesThatAreLent) {
  std::vector<int32_t> like(kRows);
  Watched memory(Labels(like), 3);
  Prefetcher prefetcher(
      source_, GetParam(), [](int64_t k) { return 10 * k; }, memory);
  const int lent = prefetcher.Lease(0);
  EXPECT_EQ(memory.FirstOf(prefetcher.Lease(31)), 310);
  EXPECT_EQ(memory.FirstOf(lent), 0);
  prefetcher.GiveBack(lent);
  EXPECT_EQ(memory.FirstOf(prefetcher.Lease(32)), 320);
  EXPECT_EQ(memory.FirstOf(prefetcher.Lease(33)), 330);
}

TEST_P(Prefetch, PassesErrorsOfAwaitingOn) {
  std::vector<int32_t> like(kRows);
  Watched memory(Labels(like), 2);
  memory.fails = true;
  Prefetcher prefetcher(
      source_, GetParam(), [](int64_t k) { return k; }, memory);
  EXPECT_THROW(prefetcher.Lease(0), InternalError);
}

// Rows that none of `threads` threads can fill alone: each waits for the others.
class Together final : public Source {
 public:
  explicit Together(int threads) : met_(threads) {}
  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    std::ranges::fill(slots[0].values<int32_t>(), static_cast<int32_t>(first));
    thread_local const Together* met = nullptr;
    if (std::exchange(met, this) != this) met_.arrive_and_wait();
  }

 private:
  mutable std::latch met_;
};

TEST(PrefetchRows, AllThreadsFillOneBatch) {
  constexpr int kThreads = 5;
  const Together source(kThreads);
  std::vector<int32_t> values(64);
  Watched memory(Labels(values), 2);
  Prefetcher prefetcher(
      source, kThreads, [](int64_t k) { return 64 * k; }, memory);
  const int place = prefetcher.Lease(0);
  const std::span<const int32_t> rows = memory.slots(place)[0].values<int32_t>();
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], static_cast<int32_t>(i / 3 * 3));
}

TEST(PrefetchRows, ThreadsFillSeveralBatchesOfFewRows) {
  constexpr int kThreads = 5;
  const Together source(kThreads);
  std::vector<int32_t> values(1);
  Prefetcher prefetcher(source, kThreads, [](int64_t k) { return k; });
  for (int k = 0; k < 20; ++k) {
    prefetcher.Fill(k, Labels(values));
    EXPECT_EQ(values[0], k);
  }
}

TEST(PrefetchRows, PlacesKeepThreadsAtWork) {
  EXPECT_EQ(PrefetchPlaces(16, 256), 3);
  EXPECT_EQ(PrefetchPlaces(16, 256, 2), 4);
  EXPECT_EQ(PrefetchPlaces(16, 16), 3);
  EXPECT_EQ(PrefetchPlaces(16, 4), 6);
  EXPECT_EQ(PrefetchPlaces(16, 1), 18);
}

TEST(PrefetchThreads, ThatCannotStartAreRefused) {
  const Numbers source;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (64 << 20);
  setrlimit(RLIMIT_AS, &limit);
  ExpectUserError([&] { Prefetcher(source, 1000, [](int64_t k) { return k; }); },
                  {"data.workers: 1000 threads cannot be started", "ask for fewer"});
  setrlimit(RLIMIT_AS, &before);
}

INSTANTIATE_TEST_SUITE_P(Workers, Prefetch, testing::Values(1, 2, 5));

}  // namespace
}  // namespace plimsoll::data
