#include "data/prefetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {

using Clock = std::chrono::steady_clock;

Prefetcher::Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of)
    : source_(source),
      first_of_(std::move(first_of)),
      batches_(static_cast<size_t>(std::max(1, workers)) + 1) {
  try {
    for (int i = 0; i < std::max(1, workers); ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error& error) {
    Stop();
    throw UserError(
        fmt::format("data.workers: {} threads cannot be started ({}), only {}; ask for fewer",
                    workers, error.what(), threads_.size()));
  }
}

Prefetcher::~Prefetcher() { Stop(); }

void Prefetcher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // The lowest number first: it is asked for first.
    Batch* batch = nullptr;
    wanted_.wait(lock, [&] {
      for (Batch& one : batches_) {
        if (one.state != State::kWanted) continue;
        if (batch == nullptr || one.number < batch->number) batch = &one;
      }
      return stops_ || batch != nullptr;
    });
    if (stops_) return;
    batch->state = State::kWorking;
    const int64_t first = first_of_(batch->number);
    lock.unlock();
    const Clock::time_point start = Clock::now();
    std::exception_ptr problem;
    try {
      source_.Fill(first, batch->slots);
    } catch (...) {
      problem = std::current_exception();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    lock.lock();
    busy_seconds_ += seconds;
    batch->problem = problem;
    batch->state = State::kReady;
    ready_.notify_all();
  }
}

void Prefetcher::MakeRoom(std::span<const graph::Slot> slots) {
  for (Batch& batch : batches_) {
    for (const graph::Slot& slot : slots) {
      batch.memory.emplace_back(slot.bytes.size());
      batch.slots.push_back({slot.name, slot.type, batch.memory.back()});
    }
  }
}

void Prefetcher::ForgetAll(std::unique_lock<std::mutex>& lock) {
  for (Batch& batch : batches_) {
    ready_.wait(lock, [&] { return batch.state != State::kWorking; });
    batch.state = State::kFree;
  }
  next_ = -1;
}

void Prefetcher::Forget() {
  std::unique_lock lock(mutex_);
  ForgetAll(lock);
}

void Prefetcher::Fill(int64_t number, std::span<const graph::Slot> slots) {
  std::unique_lock lock(mutex_);
  if (batches_.front().slots.empty()) MakeRoom(slots);
  if (slots.size() != batches_.front().slots.size()) {
    throw InternalError("prefetched batches with other slots");
  }
  const auto want = [&](int64_t wanted) {
    Of(wanted).number = wanted;
    Of(wanted).state = State::kWanted;
  };
  if (next_ != number) {
    ForgetAll(lock);
    for (int64_t i = 0; i < std::ssize(batches_); ++i) want(number + i);
    wanted_.notify_all();
  }
  Batch& batch = Of(number);
  ready_.wait(lock, [&] { return batch.state == State::kReady; });
  if (batch.problem) {
    ForgetAll(lock);
    std::rethrow_exception(batch.problem);
  }
  // No thread touches a batch that is ready.
  lock.unlock();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].bytes.size() != batch.memory[i].size()) {
      throw InternalError("prefetched batches with slots of another size");
    }
    std::memcpy(slots[i].bytes.data(), batch.memory[i].data(), batch.memory[i].size());
  }
  lock.lock();
  want(number + std::ssize(batches_));
  next_ = number + 1;
  wanted_.notify_one();
}

double Prefetcher::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  return busy_seconds_;
}

int64_t Prefetcher::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const Batch& batch : batches_) {
    for (const auto& memory : batch.memory) sum += std::ssize(memory);
  }
  return sum;
}

}  // namespace plimsoll::data
