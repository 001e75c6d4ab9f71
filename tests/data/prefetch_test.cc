#include "data/prefetch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kRows = 3;

// Sample n is the number n; preparing takes unequally long.
class Numbers final : public Source {
 public:
  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    if (first >= last) throw UserError("there are no more");
    std::this_thread::sleep_for(std::chrono::microseconds(first * 7919 % 300));
    std::iota(slots[0].values<int32_t>().begin(), slots[0].values<int32_t>().end(),
              static_cast<int32_t>(first));
    ++fills;
  }
  mutable std::atomic<int64_t> fills = 0;
  int64_t last = 1 << 30;
};

class Prefetch : public testing::TestWithParam<int> {
 protected:
  std::vector<int32_t> Batch(Prefetcher& prefetcher, int64_t number) {
    std::vector<int32_t> values(kRows, -1);
    const graph::Slot slot{
        "labels", {graph::DType::kInt32, {kRows}}, std::as_writable_bytes(std::span(values))};
    prefetcher.Fill(number, {&slot, 1});
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
  EXPECT_EQ(prefetcher.bytes(), (GetParam() + 1) * kRows * 4);
}

TEST_P(Prefetch, WorksAhead) {
  Prefetcher prefetcher(source_, GetParam(), [](int64_t k) { return k; });
  Batch(prefetcher, 0);
  const int64_t all = GetParam() + 2;  // the batch, and as many as there is room for
  for (int i = 0; i < 2000 && source_.fills < all; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(source_.fills, all);
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
  source_.last = 4;
  Prefetcher prefetcher(source_, GetParam(), [](int64_t k) { return k; });
  for (int32_t k = 0; k < 4; ++k) EXPECT_EQ(Batch(prefetcher, k), From(k));
  ExpectUserError([&] { Batch(prefetcher, 4); }, {"there are no more"});
  EXPECT_EQ(Batch(prefetcher, 2), From(2));
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
