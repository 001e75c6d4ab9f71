// Prefetch of batches: threads prepare them before a training asks for them. What a batch holds
// depends on its number alone, so it is the same for any number of threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/source.h"
#include "graph/slot.h"

namespace plimsoll::data {

class Prefetcher {
 public:
  // Batch k begins with sample `first_of(k)`; both must outlive the prefetcher. It starts `workers`
  // threads, at least one, and holds workers + 1 batches in memory of its own, from the first Fill
  // on. UserError when the system refuses to start that many.
  Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Fills the slots with batch `number`, and lets the threads prepare those that follow. Batches
  // are to be asked for one after the other; another number begins anew. The slots are the same in
  // all calls but for their memory. Throws what the source throws.
  void Fill(int64_t number, std::span<const graph::Slot> slots);

  // Forgets what is prepared, because first_of has changed.
  void Forget();

  // The time that the threads have worked, in seconds, all together.
  double busy_seconds() const;
  // The bytes of prepared batches.
  int64_t bytes() const;

 private:
  enum class State { kFree, kWanted, kWorking, kReady };
  struct Batch {
    State state = State::kFree;
    int64_t number = 0;
    std::vector<std::vector<std::byte>> memory;  // by slot
    std::vector<graph::Slot> slots;              // in `memory`
    std::exception_ptr problem;
  };

  void Work();
  void Stop();
  void MakeRoom(std::span<const graph::Slot> slots);
  void ForgetAll(std::unique_lock<std::mutex>& lock);
  Batch& Of(int64_t number) { return batches_[static_cast<size_t>(number) % batches_.size()]; }

  const Source& source_;
  const std::function<int64_t(int64_t)> first_of_;
  mutable std::mutex mutex_;  // of all below, but for the memory of batches under work
  std::condition_variable wanted_, ready_;
  std::vector<Batch> batches_;  // number k is in place k mod size
  int64_t next_ = -1;           // the number that is to be asked for next; -1: any
  double busy_seconds_ = 0;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::data
