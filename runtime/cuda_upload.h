// Uploads bytes from the host to the device through pinned memory: the caller's bytes are copied
// there first, so that they may be reused at once, and the device fetches them in stream order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "runtime/cuda_handles.h"

namespace plimsoll::runtime {

class CudaUpload {
 public:
  CudaUpload();

  // Enqueues the copy on the stream. Waits only if all pinned memory is in use.
  void Write(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream);

 private:
  // A chunk holds the tokens of most batches, and there are enough chunks for the host to hand in a
  // step's slots while the device still works on the step before.
  static constexpr int64_t kChunkBytes = 512 << 10;
  static constexpr int kChunks = 16;

  CudaBuffer pinned_;
  std::vector<CudaEvent> fetched_;  // of each chunk
  int next_ = 0;
};

}  // namespace plimsoll::runtime
