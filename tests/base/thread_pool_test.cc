#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

using Chunk = std::pair<int64_t, int64_t>;

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t n : {1, 2, 7, 64, 1000, 1001}) {
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<int> count(n, 0);
        pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++count[i];
        });
        EXPECT_EQ(count, std::vector<int>(n, 1)) << threads << " threads, " << n << "/" << grain;
      }
    }
  }
}

TEST(ThreadPool, ChunksDependOnTheLoopAlone) {
  const std::set<Chunk> expected = {{0, 4}, {4, 8}, {8, 10}};
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::mutex mutex;
    std::set<Chunk> chunks;
    pool.ParallelFor(10, 4, [&](int64_t begin, int64_t end) {
      std::lock_guard<std::mutex> lock(mutex);
      EXPECT_TRUE(chunks.emplace(begin, end).second);
    });
    EXPECT_EQ(chunks, expected);
  }
}

TEST(ThreadPool, EmptyLoopsDoNothing) {
  ThreadPool pool(2);
  for (int64_t n : {int64_t{0}, int64_t{-3}}) {
    pool.ParallelFor(n, 1, [](int64_t, int64_t) { ADD_FAILURE() << "called"; });
  }
}

TEST(ThreadPool, HugeGrainDoesNotOverflow) {
  ThreadPool pool(2);
  int calls = 0;
  pool.ParallelFor(5, INT64_MAX, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 5);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, RefusesImpossibleArguments) {
  EXPECT_THROW(ThreadPool(0), InternalError);
  ThreadPool pool(2);
  EXPECT_THROW(pool.ParallelFor(1, 0, [](int64_t, int64_t) {}), InternalError);
}

TEST(ThreadPool, WorkerIndexOwnsItsScratch) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<int64_t> sum(threads, 0);  // not atomic: one writer at a time per index
    for (int round = 0; round < 50; ++round) {
      pool.ParallelForWorker(100, 1, [&](int64_t begin, int64_t, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, threads);
        sum[worker] += begin;
      });
    }
    EXPECT_EQ(std::accumulate(sum.begin(), sum.end(), int64_t{0}), 50 * 99 * 100 / 2);
  }
}

TEST(ThreadPool, NestedLoopsStayOnTheirThread) {
  ThreadPool pool(3);
  std::vector<int64_t> sum(8, 0);
  pool.ParallelForWorker(8, 1, [&](int64_t outer, int64_t, int worker) {
    const std::thread::id thread = std::this_thread::get_id();
    pool.ParallelForWorker(10, 3, [&](int64_t begin, int64_t end, int inner_worker) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      EXPECT_EQ(inner_worker, worker);
      for (int64_t i = begin; i < end; ++i) sum[outer] += i;
    });
  });
  EXPECT_EQ(sum, std::vector<int64_t>(8, 45));
}

TEST(ThreadPool, ALoopWithinASingleChunkIsNested) {
  ThreadPool pool(2);
  int64_t sum = 0;
  pool.ParallelFor(1, 1, [&](int64_t, int64_t) {
    pool.ParallelFor(4, 1, [&](int64_t begin, int64_t) { sum += begin; });
  });
  EXPECT_EQ(sum, 6);
}

TEST(ThreadPool, SeveralThreadsTakeTurns) {
  ThreadPool pool(2);
  std::vector<int64_t> totals(3, 0);
  std::vector<std::thread> callers;
  for (int64_t& total : totals) {
    callers.emplace_back([&pool, &total] {
      for (int round = 0; round < 100; ++round) {
        std::vector<int64_t> parts(16, 0);
        pool.ParallelFor(16, 1, [&](int64_t begin, int64_t) { parts[begin] = begin; });
        total += std::accumulate(parts.begin(), parts.end(), int64_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(totals, std::vector<int64_t>(3, 100 * 120));
}

// Many short loops with pauses between them: workers arrive late, sleep and are woken.
TEST(ThreadPool, ManyLoopsWithAndWithoutPauses) {
  for (int threads : {2, 5}) {
    ThreadPool pool(threads);
    std::vector<int64_t> values(37, 0);
    for (int round = 0; round < 2000; ++round) {
      pool.ParallelFor(37, 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) values[i] += i;
      });
      if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    for (int64_t i = 0; i < 37; ++i) EXPECT_EQ(values[i], 2000 * i);
  }
}

// Each thread's chunk waits for the others, so that all threads must take part.
TEST(ThreadPool, AllThreadsWork) {
  ThreadPool pool(3);
  std::atomic<int> arrived{0};
  pool.ParallelFor(3, 1, [&](int64_t, int64_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(ThreadPool, CreatingAndDestroying) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(4);
    if (round % 2 == 0) pool.ParallelFor(4, 1, [](int64_t, int64_t) {});
  }
}

}  // namespace
}  // namespace plimsoll
