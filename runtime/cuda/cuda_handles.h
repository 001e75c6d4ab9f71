// CUDA streams, events and memory that are freed with their owner. All CUDA calls are checked.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "gpu/check.h"
#include "runtime/cuda/pinned_memory.h"

namespace plimsoll::runtime {

class CudaStream {
 public:
  enum class Priority { kNormal, kHighest };
  explicit CudaStream(Priority priority = Priority::kNormal) {
    int lowest = 0, highest = 0;
    gpu::Check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
               "cudaDeviceGetStreamPriorityRange");
    gpu::Check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                            priority == Priority::kHighest ? highest : lowest),
               "cudaStreamCreate");
  }
  ~CudaStream() { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaEvent {
 public:
  enum class Kind {
    kOrder,
    kTime,
    kAwaited,  // a thread that waits for the event sleeps
  };
  explicit CudaEvent(Kind kind = Kind::kOrder) {
    const unsigned flags = kind == Kind::kTime      ? cudaEventDefault
                           : kind == Kind::kAwaited ? cudaEventDisableTiming | cudaEventBlockingSync
                                                    : cudaEventDisableTiming;
    gpu::Check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
  }
  ~CudaEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;

  void Record(cudaStream_t stream) const {
    gpu::Check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  // Work enqueued on the stream from now on waits for the event's last recording.
  void MakeWait(cudaStream_t stream) const {
    gpu::Check(cudaStreamWaitEvent(stream, event_, cudaEventWaitDefault), "cudaStreamWaitEvent");
  }
  // RecordForOthers and WaitForOthers order graphs that are recorded separately. Each launch of the
  // one graph records the event, and each launch of the other graph waits for the recording that
  // was launched last. Outside of a graph, these are an ordinary record and wait.
  void RecordForOthers(cudaStream_t stream) const;
  void WaitForOthers(cudaStream_t stream) const;
  // Makes the host wait for the event; returns at once if nothing was recorded.
  void Wait() const { gpu::Check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  // Waits like Wait(), for callers that can no longer report an error.
  void WaitQuietly() const { cudaEventSynchronize(event_); }
  double MicrosecondsSince(const CudaEvent& start) const {
    float milliseconds = 0;
    gpu::Check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Memory of one of three kinds: GPU memory; GPU memory that other processes' GPUs can share
// (ops::Communicator::Register); or pinned host memory, which the GPU copies from and to at full
// speed while it works. It has exactly the bytes asked for, except that shared memory is rounded up
// to full pages. A buffer of 0 bytes has no memory.
class CudaBuffer {
 public:
  enum class Kind { kDevice, kShared, kPinned };
  // Throws a UserError naming `what` and the bytes if the machine lacks memory.
  CudaBuffer(Kind kind, int64_t bytes, const char* what);
  ~CudaBuffer();
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Kind kind_;
  int64_t bytes_;
  std::byte* data_ = nullptr;
  std::optional<PinnedMemory> large_;  // the memory of data_, if it is pinned and large
};

}  // namespace plimsoll::runtime
