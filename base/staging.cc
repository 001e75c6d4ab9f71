#include "base/staging.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

// Keeps the error of the work with the smallest number.
class FirstError {
 public:
  void Note(size_t number, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ && number_ <= number) return;
    number_ = number;
    error_ = std::move(error);
    any_ = true;
  }
  bool any() const { return any_; }
  void Throw() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_ = false;
  size_t number_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::span<std::byte> StagingTurns::Next() {
  const StagingBuffer& buffer = *buffers_[next_];
  next_ = (next_ + 1) % buffers_.size();
  if (buffer.await) buffer.await();
  return buffer.bytes;
}

void StagingTurns::AwaitAll() {
  for (const StagingBuffer* buffer : buffers_) {
    if (buffer->await) buffer->await();
  }
}

void ForEachStaged(ThreadPool& pool, std::span<const StagingBuffer> buffers, size_t n,
                   FunctionRef<void(size_t i, StagingTurns& turns)> body) {
  if (buffers.empty() || buffers.front().bytes.empty()) {
    throw InternalError("there is no memory to read into");
  }
  const size_t threads = std::min({static_cast<size_t>(pool.size()), buffers.size(), n});
  std::atomic<size_t> next = 0;
  FirstError error;
  const auto work = [&](size_t thread) {
    std::vector<const StagingBuffer*> own;
    for (size_t i = thread; i < buffers.size(); i += threads) own.push_back(&buffers[i]);
    StagingTurns turns(std::move(own));
    size_t i = n;
    try {
      while (!error.any() && (i = next++) < n) body(i, turns);
    } catch (...) {
      error.Note(i, std::current_exception());
    }
    try {
      turns.AwaitAll();
    } catch (...) {
      error.Note(n, std::current_exception());
    }
  };
  pool.ParallelFor(static_cast<int64_t>(threads), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) work(static_cast<size_t>(thread));
  });
  error.Throw();
}

HostStaging::HostStaging(int count, size_t bytes)
    : memory_(static_cast<size_t>(count), std::vector<std::byte>(bytes)) {
  for (std::vector<std::byte>& memory : memory_) buffers_.push_back({memory});
}

}  // namespace plimsoll
