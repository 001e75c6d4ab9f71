// Uploads bytes from the host to the device through pinned memory. The caller's bytes are first
// copied to pinned memory, so that they may be reused at once. The device fetches them in stream
// order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "runtime/cuda/cuda_handles.h"

namespace plimsoll::runtime {

class CudaUpload {
 public:
  CudaUpload() { Hold(0); }

  // Replaces the pinned memory by memory for `bytes` bytes, within a minimum and a maximum. If
  // `bytes` is the size of all inputs of a step, the host can pass in the next step's inputs while
  // the device still works. Call this only while no copy is in flight.
  void Hold(int64_t bytes);

  // Enqueues the copy on the stream. Waits only if all pinned memory is in use.
  void Write(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream);

  // Like Write(), with another operation than a copy: calls enqueue(chunk, begin, size) for
  // consecutive pieces of the bytes. A piece stays in pinned memory until the work that the call
  // has enqueued on the stream is done. The sizes of all pieces but the last are multiples of 256
  // bytes.
  void Enqueue(const void* from, int64_t bytes, cudaStream_t stream,
               FunctionRef<void(const std::byte* chunk, int64_t begin, int64_t size)> enqueue);

  // Total seconds spent copying into pinned memory.
  double copy_seconds() const { return copy_seconds_; }

 private:
  int64_t chunk_bytes_ = 0;
  double copy_seconds_ = 0;
  std::optional<CudaBuffer> pinned_;
  std::vector<CudaEvent> fetched_;  // one event for each chunk
  size_t next_ = 0;
};

}  // namespace plimsoll::runtime
