// Prefetch of batches: threads prepare them before a training asks for them. All threads fill the
// batch that is asked for next, a range of its rows each; what a row holds depends on its number
// alone, so it is the same for any number of threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/batch_memory.h"
#include "data/source.h"
#include "graph/slot.h"

namespace plimsoll::data {

// How many places keep `workers` threads at work on batches of `rows` rows while a training holds
// `held` of them: with few rows, threads work on several batches at a time.
int PrefetchPlaces(int64_t workers, int64_t rows, int64_t held = 1);

class Prefetcher {
 public:
  // Batch k begins with sample `first_of(k)`; source and function must outlive the prefetcher. It
  // starts `workers` threads, at least one, and lays batch k into place k mod places. UserError
  // when the system refuses to start that many threads.
  //
  // With memory of its own, PrefetchPlaces of the first batch's rows, from the first Fill on.
  Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of);
  // In `memory`, which has two places or more, and must outlive the prefetcher.
  Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of,
             BatchMemory& memory);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for batch `number`, lets the threads prepare those that follow, and returns its place,
  // which stays as it is until GiveBack. Batches are to be asked for one after the other; another
  // number begins anew. Throws what the source throws, of the first row with an error.
  // InternalError when the place has not been given back.
  int Lease(int64_t number);
  // The place may be filled again once BatchMemory::Await returns.
  void GiveBack(int place);

  // Copies batch `number` into the slots, which are the same in all calls but for their memory.
  void Fill(int64_t number, std::span<const graph::Slot> slots);

  // Forgets what is prepared, because first_of has changed or another number is asked for next.
  // Leased places stay as they are.
  void Forget();

  // The time that the threads have worked, in seconds, all together.
  double busy_seconds() const;
  // The time that callers have waited for the threads, in seconds: without the time in which a
  // batch's place was not free yet.
  double waited_seconds() const;
  // The bytes of prepared batches.
  int64_t bytes() const;

 private:
  using Clock = std::chrono::steady_clock;
  // kOpening: a thread waits until nothing reads the place. kOpen: ranges of rows are handed out,
  // or under work.
  enum class State { kFree, kWanted, kOpening, kOpen, kReady, kLeased };
  struct Batch {
    State state = State::kFree;
    int64_t number = 0;
    int64_t first = 0;              // sample
    int64_t next_row = 0;           // that no thread has taken
    int64_t under_work = 0;         // ranges
    Clock::time_point opened = {};  // when its place was free
    std::exception_ptr problem;     // of the first row that has one
    int64_t problem_row = 0;
  };

  void Start();
  void Stop();
  void Work();
  Batch* NextWork();
  void Open(Batch& batch, std::unique_lock<std::mutex>& lock);
  void FillRange(Batch& batch, std::vector<graph::Slot>& part, std::unique_lock<std::mutex>& lock);
  void Report(Batch& batch, std::exception_ptr problem, int64_t row);
  void UseMemory(BatchMemory& memory);
  void Want(int64_t number);
  void ForgetAll(std::unique_lock<std::mutex>& lock);
  void BeginAt(int64_t number, std::unique_lock<std::mutex>& lock);
  int PlaceOf(int64_t number) const {
    return static_cast<int>(static_cast<size_t>(number) % batches_.size());
  }
  Batch& Of(int64_t number) { return batches_[static_cast<size_t>(PlaceOf(number))]; }
  int PlaceOf(const Batch& batch) const { return static_cast<int>(&batch - batches_.data()); }

  const Source& source_;
  const int workers_;
  const std::function<int64_t(int64_t)> first_of_;
  std::unique_ptr<BatchMemory> own_;
  mutable std::mutex mutex_;  // guards all members below, but not the memory of batches
  std::condition_variable wanted_, ready_;
  BatchMemory* memory_ = nullptr;
  int64_t rows_ = 1, range_ = 1;  // rows of a batch; rows that a thread takes at a time
  std::vector<Batch> batches_;    // by place
  int64_t next_ = -1;             // the number that is to be asked for next; -1: any
  double busy_seconds_ = 0, waited_seconds_ = 0;
  bool forgets_ = false, stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::data
