// Runs many pieces of work on several threads with a bounded amount of buffer memory. Typically,
// files are read into buffers, and a device copies the buffers' bytes, perhaps after the thread has
// moved on.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/thread_pool.h"

namespace plimsoll {

struct StagingBuffer {
  std::span<std::byte> bytes;
  // Returns when nobody reads the buffer's bytes any more. Empty: nobody reads them after the piece
  // of work is done.
  std::function<void()> await = {};
};

// The buffers of one thread, which are used in turn.
class StagingTurns {
 public:
  explicit StagingTurns(std::vector<const StagingBuffer*> buffers) : buffers_(std::move(buffers)) {}

  // The size of each buffer.
  size_t bytes() const { return buffers_.front()->bytes.size(); }
  // The buffer that was handed out longest ago, once nobody reads it. The caller may fill it until
  // the next call, and others may read it until it is handed out again.
  std::span<std::byte> Next();
  // Waits until nobody reads any of the buffers.
  void AwaitAll();

 private:
  std::vector<const StagingBuffer*> buffers_;
  size_t next_ = 0;
};

// Calls body(i, turns) for each i < n on the pool's threads, at most one thread for each buffer.
// Work begins in the order of i, so that pieces of a file are read in their order, which disks read
// fastest. Returns when all work is done and nobody reads a buffer. Throws the error of the
// smallest i that failed; after an error no further work begins. There is at least one buffer, and
// all have one size.
void ForEachStaged(ThreadPool& pool, std::span<const StagingBuffer> buffers, size_t n,
                   FunctionRef<void(size_t i, StagingTurns& turns)> body);

// Buffers in ordinary host memory.
class HostStaging {
 public:
  HostStaging(int count, size_t bytes);
  std::span<const StagingBuffer> buffers() const { return buffers_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<StagingBuffer> buffers_;
};

}  // namespace plimsoll
