#include "base/thread_pool.h"

#include <chrono>
#include <string>
#include <system_error>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll {
namespace {

constexpr uint32_t kOpen = 1u << 31;

// How long a thread spins before it sleeps. It is longer than the serial gaps within a step, and
// shorter than another process on the same core would notice.
constexpr std::chrono::microseconds kSpin{30};

// The pool whose body the current thread is running, and the thread's index in that pool.
thread_local const ThreadPool* current_pool = nullptr;
thread_local int current_worker = 0;

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns true as soon as done() is true, or false after kSpin. Reads the clock only occasionally.
template <typename Done>
bool SpinUntil(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      CpuRelax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) throw InternalError("ThreadPool: threads must be at least 1");
  const unsigned cores = std::thread::hardware_concurrency();
  oversubscribed_ = cores != 0 && static_cast<unsigned>(threads) > cores;
  workers_.reserve(threads - 1);
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { WorkerMain(worker); });
    }
  } catch (const std::system_error& error) {
    Stop();
    throw UserError("cannot start " + Counted(threads, "thread") + " (" + error.what() +
                    "; ulimit -u and -v, or a container's limit); train.threads asks for fewer");
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::ParallelFor(int64_t n, int64_t grain,
                             FunctionRef<void(int64_t begin, int64_t end)> body) {
  ParallelForWorker(n, grain, [body](int64_t begin, int64_t end, int) { body(begin, end); });
}

void ThreadPool::ParallelForWorker(int64_t n, int64_t grain, Body body) {
  if (grain < 1) throw InternalError("ThreadPool: grain must be at least 1");
  if (n <= 0) return;
  const int64_t chunks = (n - 1) / grain + 1;
  const bool nested = current_pool == this;
  std::unique_lock<std::mutex> turn(caller_mutex_, std::defer_lock);
  if (!nested) turn.lock();
  if (nested || chunks == 1 || workers_.empty()) {
    const ThreadPool* const outer_pool = current_pool;
    const int outer_worker = current_worker;
    const int worker = nested ? outer_worker : 0;
    current_pool = this;
    current_worker = worker;
    [&]() noexcept {
      for (int64_t begin = 0;;) {
        const int64_t end = n - begin > grain ? begin + grain : n;
        body(begin, end, worker);
        if (end == n) break;
        begin = end;
      }
    }();
    current_pool = outer_pool;
    current_worker = outer_worker;
    return;
  }

  // The gate is closed and no worker is inside, so only this thread writes loop_. Opening the gate
  // publishes it.
  loop_ = Loop{&body, n, grain, chunks};
  next_chunk_.store(0, std::memory_order_relaxed);
  gate_.store(kOpen, std::memory_order_release);
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();

  RunChunks(0);

  // Every chunk is taken. Workers that have not entered stay out; workers inside finish their
  // chunks.
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  WaitUntilLeft();
}

void ThreadPool::RunChunks(int worker) noexcept {
  const ThreadPool* const outer_pool = current_pool;
  const int outer_worker = current_worker;
  current_pool = this;
  current_worker = worker;
  const Loop loop = loop_;
  for (;;) {
    const int64_t chunk = next_chunk_.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= loop.chunks) break;
    const int64_t begin = chunk * loop.grain;
    const int64_t end = loop.n - begin > loop.grain ? begin + loop.grain : loop.n;
    (*loop.body)(begin, end, worker);
  }
  current_pool = outer_pool;
  current_worker = outer_worker;
}

bool ThreadPool::TryEnter() {
  uint32_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::Leave() {
  // The last worker that leaves a closed gate wakes the caller, who may be sleeping.
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) gate_.notify_one();
}

void ThreadPool::WaitUntilLeft() {
  const auto empty = [this] { return gate_.load(std::memory_order_acquire) == 0; };
  if (!oversubscribed_ && SpinUntil(empty)) return;
  for (;;) {
    const uint32_t gate = gate_.load(std::memory_order_acquire);
    if (gate == 0) return;
    gate_.wait(gate, std::memory_order_acquire);
  }
}

void ThreadPool::WaitForNews(uint32_t seen) const {
  const auto changed = [&] { return news_.load(std::memory_order_acquire) != seen; };
  if (!oversubscribed_ && SpinUntil(changed)) return;
  news_.wait(seen, std::memory_order_acquire);
}

void ThreadPool::WorkerMain(int worker) {
  for (;;) {
    // news_ is read before the gate: a loop opened later changes news_, so it is not missed.
    const uint32_t seen = news_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (TryEnter()) {
      RunChunks(worker);
      Leave();
    }
    WaitForNews(seen);
  }
}

}  // namespace plimsoll
