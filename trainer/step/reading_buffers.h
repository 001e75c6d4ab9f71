// The memory through which files are read into a session.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/staging.h"
#include "runtime/device_kind.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The buffers for reading files. A session can have one ReadingBuffers at a time.
class ReadingBuffers {
 public:
  explicit ReadingBuffers(Session& session) : session_(session) {
    const bool gpu = session.device().kind() != runtime::DeviceKind::kCpu;
    const int threads = session.device().pool().size();
    const int count = gpu ? std::min(threads * kOfThreadForGpu, kMostForGpu) : threads;
    const size_t bytes = gpu ? kBytesForGpu : kBytes;
    std::span<std::byte> memory =
        session.Staging(static_cast<int64_t>(bytes) * static_cast<int64_t>(count));
    for (int i = 0; i < count; ++i) {
      buffers_.push_back({memory.subspan(static_cast<size_t>(i) * bytes, bytes)});
      if (gpu) buffers_.back().await = [&session] { session.AwaitWrites(); };
    }
  }
  ~ReadingBuffers() { session_.Staging(0); }
  ReadingBuffers(const ReadingBuffers&) = delete;
  ReadingBuffers& operator=(const ReadingBuffers&) = delete;

  std::span<const StagingBuffer> buffers() const { return buffers_; }

 private:
  // One buffer fits in a core's cache, where the CPU converts elements, and is large enough to make
  // the cost of system calls negligible.
  static constexpr size_t kBytes = size_t{512} << 10;
  // The GPU reads one of a thread's buffers while the thread fills another one. Buffers larger than
  // those for the CPU need fewer waits.
  static constexpr size_t kBytesForGpu = size_t{2} << 20;
  static constexpr int kOfThreadForGpu = 3;
  static constexpr int kMostForGpu = 48;  // limits pinned memory, because pinning memory takes time

  Session& session_;
  std::vector<StagingBuffer> buffers_;
};

}  // namespace plimsoll::trainer
