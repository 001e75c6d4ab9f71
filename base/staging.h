// Many pieces of work that pass through a bounded amount of memory, on several threads: files are
// read into buffers, from which something else takes the bytes, perhaps after the thread has gone
// on (a device that copies them).
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
  // Returns when nobody reads the bytes any more. Empty: nobody does once a piece of work is done.
  std::function<void()> await = {};
};

// The buffers of one thread, which it uses in turn.
class StagingTurns {
 public:
  explicit StagingTurns(std::vector<const StagingBuffer*> buffers) : buffers_(std::move(buffers)) {}

  // Of each buffer.
  size_t bytes() const { return buffers_.front()->bytes.size(); }
  // The buffer that was given out longest ago, once nobody reads it. It may be filled until the
  // next call, and read until it is given out again.
  std::span<std::byte> Next();
  // Until nobody reads any of them.
  void AwaitAll();

 private:
  std::vector<const StagingBuffer*> buffers_;
  size_t next_ = 0;
};

// Calls body(i, turns) for each i < n on the pool's threads, at most one for each buffer. Work is
// begun in its order, so that pieces of files in their order are read as a disk likes it. Returns
// when all is done and nobody reads a buffer. Of errors it throws that of the smallest i; after one
// no further work is begun. The buffers are of one size, and there is at least one.
void ForEachStaged(ThreadPool& pool, std::span<const StagingBuffer> buffers, size_t n,
                   FunctionRef<void(size_t i, StagingTurns& turns)> body);

// Buffers in ordinary memory.
class HostStaging {
 public:
  HostStaging(int count, size_t bytes);
  std::span<const StagingBuffer> buffers() const { return buffers_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<StagingBuffer> buffers_;
};

}  // namespace plimsoll
