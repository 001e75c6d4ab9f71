#include "runtime/cuda/cuda_upload.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/cuda/upload_chunks.h"

namespace plimsoll::runtime {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void CudaUpload::Hold(int64_t bytes) {
  const int64_t chunk = UploadChunkBytes(bytes);
  if (chunk == chunk_bytes_) return;
  pinned_.emplace(CudaBuffer::Kind::kPinned, chunk * kUploadChunks, "pinned memory for batches");
  chunk_bytes_ = chunk;
  fetched_ = std::vector<CudaEvent>(kUploadChunks);
  next_ = 0;
}

void CudaUpload::Enqueue(
    const void* from, int64_t bytes, cudaStream_t stream,
    FunctionRef<void(const std::byte* chunk, int64_t begin, int64_t size)> enqueue) {
  const auto* source = static_cast<const std::byte*>(from);
  for (int64_t done = 0; done < bytes; done += chunk_bytes_) {
    const int64_t size = std::min(chunk_bytes_, bytes - done);
    std::byte* const chunk = pinned_->data() + static_cast<int64_t>(next_) * chunk_bytes_;
    fetched_[next_].Wait();
    const Clock::time_point start = Clock::now();
    std::memcpy(chunk, source + done, static_cast<size_t>(size));
    copy_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    enqueue(chunk, done, size);
    fetched_[next_].Record(stream);
    next_ = (next_ + 1) % fetched_.size();
  }
}

void CudaUpload::Write(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream) {
  Enqueue(from, bytes, stream, [&](const std::byte* chunk, int64_t begin, int64_t size) {
    gpu::Check(
        cudaMemcpyAsync(to + begin, chunk, static_cast<size_t>(size), cudaMemcpyDefault, stream),
        "cudaMemcpyAsync");
  });
}

}  // namespace plimsoll::runtime
