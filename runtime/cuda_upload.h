// Bytes on their way from the host to the device: copied into pinned memory first, so that the
// caller's may be reused at once and the device fetches them when their turn has come.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "runtime/cuda_handles.h"

namespace plimsoll::runtime {

class CudaUpload {
 public:
  CudaUpload();

  // Enqueues the copy on the stream. Waits only while all pinned memory is on its way.
  void Write(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream);

 private:
  // Large enough for the tokens of most batches, and enough of them that the host can hand in a
  // step's slots while the device is still at the step before.
  static constexpr int64_t kChunkBytes = 512 << 10;
  static constexpr int kChunks = 16;

  CudaBuffer pinned_;
  std::vector<CudaEvent> fetched_;  // of each chunk
  int next_ = 0;
};

}  // namespace plimsoll::runtime
