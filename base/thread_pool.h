// A fixed set of threads for data-parallel loops.
//
// The index range of a loop is divided into chunks of `grain` regardless of the number of threads,
// and the body is called once per chunk. So a body that reduces within its chunk gives the same
// bits on any number of threads, if the chunks' results are combined in order afterwards.
//
// A loop allocates nothing. Threads without work spin for some microseconds, so that the loops of
// a training step follow each other quickly, and then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace plimsoll {

class ThreadPool {
 public:
  // `threads` includes the calling thread: ThreadPool(1) starts none. Throws InternalError if it is
  // below 1, UserError if the system refuses to start the threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The number of threads that take part in a loop, including the caller.
  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) for [0, grain), [grain, 2·grain), … [.., n), in any order and on any
  // thread. Returns when all calls are done; their writes are then visible to the caller. n ≤ 0
  // does nothing; grain ≥ 1. A loop started within a body runs on that thread alone. Loops from
  // several outside threads take turns. An exception from a body ends the program.
  void ParallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

  // Like ParallelFor, but also passes the index of the running thread, 0 ≤ worker < size(). No two
  // bodies of the pool run with the same index at the same time, so the index may select scratch
  // memory. In a nested loop it is the index of the enclosing body. The index must not influence
  // results.
  void ParallelForWorker(int64_t n, int64_t grain,
                         FunctionRef<void(int64_t begin, int64_t end, int worker)> body);

 private:
  using Body = FunctionRef<void(int64_t begin, int64_t end, int worker)>;
  struct Loop {
    const Body* body = nullptr;
    int64_t n = 0;
    int64_t grain = 1;
    int64_t chunks = 0;
  };

  void WorkerMain(int worker);
  void RunChunks(int worker) noexcept;
  bool TryEnter();
  void Leave();
  void WaitForNews(uint32_t seen) const;
  void WaitUntilLeft();
  void Stop();

  std::vector<std::thread> workers_;
  std::mutex caller_mutex_;  // held by the outside thread whose loop is running

  // loop_ is only written while `gate_` is closed and no worker is inside.
  Loop loop_;
  // Each counter has its own cache line, since all threads write it.
  alignas(64) std::atomic<int64_t> next_chunk_{0};
  // Top bit: a loop is open to workers. Other bits: how many workers are inside it.
  alignas(64) std::atomic<uint32_t> gate_{0};
  // Changes with every new loop and at shutdown; sleeping workers wait for a change.
  alignas(64) std::atomic<uint32_t> news_{0};
  std::atomic<bool> stop_{false};
  bool oversubscribed_ = false;
};

}  // namespace plimsoll
