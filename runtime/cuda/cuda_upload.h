// Uploads bytes from the host to the device through pinned memory: the caller's bytes are copied
// there first, so that they may be reused at once, and the device fetches them in stream order.
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
  // `bytes` are those of all input slots of a step, the host can hand in the next step's inputs
  // while the device still works. Call this only when no copy is in flight.
  void Hold(int64_t bytes);

  // Enqueues the copy on the stream. Waits only if all pinned memory is in use.
  void Write(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream);

  // The same with something else than a copy: calls enqueue(chunk, begin, size) for pieces of the
  // bytes, in order, each of which lies in pinned memory until what the call has enqueued on the
  // stream is done. All but the last are multiples of 256 bytes.
  void Enqueue(const void* from, int64_t bytes, cudaStream_t stream,
               FunctionRef<void(const std::byte* chunk, int64_t begin, int64_t size)> enqueue);

  // The time of copying into pinned memory, in seconds, all in all.
  double copy_seconds() const { return copy_seconds_; }

 private:
  int64_t chunk_bytes_ = 0;
  double copy_seconds_ = 0;
  std::optional<CudaBuffer> pinned_;
  std::vector<CudaEvent> fetched_;  // of each chunk
  size_t next_ = 0;
};

}  // namespace plimsoll::runtime
