// Prefetches batches: threads fill them before training asks for them. All threads work on the
// batch that is needed next, each on a range of its rows. The content of a row depends only on its
// number, so it is the same for any number of threads.
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

// The number of places (batch buffers, batch_memory.h) that keeps `workers` threads busy with
// batches of `rows` rows while training holds `held` places. If batches have few rows, threads work
// on several batches at the same time.
int PrefetchPlaces(int64_t workers, int64_t rows, int64_t held = 1);

class Prefetcher {
 public:
  // Batch k begins with sample `first_of(k)`. Source and function must outlive the prefetcher. It
  // starts `workers` threads, at least one, and puts batch k into place k mod places. Throws a
  // UserError when the system refuses to start that many threads.
  //
  // This constructor allocates its own memory at the first Fill: PrefetchPlaces places for the rows
  // of the first batch.
  Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of);
  // Uses `memory`, which must have at least two places and outlive the prefetcher.
  Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of,
             BatchMemory& memory);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for batch `number`, lets the threads prepare the following batches, and returns the
  // batch's place, which does not change until GiveBack. Batches should be requested in order;
  // another number restarts prefetching there. Throws the source's exception for the first row that
  // has an error, and InternalError when the place has not been given back.
  int Lease(int64_t number);
  // Allows the place to be filled again, once BatchMemory::Await returns.
  void GiveBack(int place);

  // Copies batch `number` into the slots; only their memory may differ between calls.
  void Fill(int64_t number, std::span<const graph::Slot> slots);

  // Discards prepared batches, because first_of has changed or another number will be requested
  // next. Leased places are kept.
  void Forget();

  // The total working time of all threads, in seconds.
  double busy_seconds() const;
  // The time in seconds that callers have waited for the threads, without the time in which a
  // batch's place was not yet free.
  double waited_seconds() const;
  // The memory of prepared batches, in bytes.
  int64_t bytes() const;

 private:
  using Clock = std::chrono::steady_clock;
  // kOpening: a thread waits until nothing reads the place. kOpen: ranges of rows are being handed
  // out and filled.
  enum class State { kFree, kWanted, kOpening, kOpen, kReady, kLeased };
  struct Batch {
    State state = State::kFree;
    int64_t number = 0;
    int64_t first = 0;              // the batch's first sample
    int64_t next_row = 0;           // the first row that no thread has taken
    int64_t under_work = 0;         // the number of ranges being filled
    Clock::time_point opened = {};  // when the batch's place became free
    std::exception_ptr problem;     // exception of the first row that failed
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
  std::vector<Batch> batches_;    // one batch for each place
  int64_t next_ = -1;             // the number expected next; -1: any
  double busy_seconds_ = 0, waited_seconds_ = 0;
  bool forgets_ = false, stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::data
