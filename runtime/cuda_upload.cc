#include "runtime/cuda_upload.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::runtime {

CudaUpload::CudaUpload()
    : pinned_(CudaBuffer::Kind::kPinned, kChunkBytes * kChunks, "pinned memory for batches"),
      fetched_(kChunks) {}

void CudaUpload::Write(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream) {
  const auto* source = static_cast<const std::byte*>(from);
  for (int64_t done = 0; done < bytes; done += kChunkBytes) {
    const auto size = static_cast<size_t>(std::min(kChunkBytes, bytes - done));
    std::byte* chunk = pinned_.data() + next_ * kChunkBytes;
    fetched_[next_].Wait();
    std::memcpy(chunk, source + done, size);
    gpu::Check(cudaMemcpyAsync(to + done, chunk, size, cudaMemcpyDefault, stream),
               "cudaMemcpyAsync");
    fetched_[next_].Record(stream);
    next_ = (next_ + 1) % kChunks;
  }
}

}  // namespace plimsoll::runtime
