#include "runtime/cuda/cuda_store.h"

#include <cstdint>

#include "runtime/cuda/cuda_stored_parameter.h"

namespace plimsoll::runtime {

CudaStore::~CudaStore() {
  // Waits: memory that kernels still read must not be freed.
  cudaStreamSynchronize(stream_);
}

void CudaStore::Store(const StoredParameter& to, const Stripe& from, const InitialDraws& draws) {
  const std::lock_guard lock(mutex_);
  EnqueueDraws(to, from, draws, stream_);
}

bool CudaStore::IsStaged(const std::byte* data) const {
  if (!staging_) return false;
  const auto begin = reinterpret_cast<uintptr_t>(staging_->data());
  const auto at = reinterpret_cast<uintptr_t>(data);
  return at >= begin && at < begin + static_cast<uintptr_t>(staging_->bytes());
}

void CudaStore::Store(const StoredParameter& to, const Stripe& from, const TypedElements& values) {
  CheckStore(to, from, values);
  if (from.count == 0) return;
  const std::lock_guard lock(mutex_);
  // Kernels read elements at their own alignment.
  const bool aligned =
      reinterpret_cast<uintptr_t>(values.data) % graph::ByteSize(values.dtype) == 0;
  if (aligned && IsStaged(values.data)) return EnqueueValues(to, from, values, stream_);
  // Uploads only the values from the first to the last one that are stored.
  const int64_t first = from.Number(0);
  const TypedElements needed = values.Part(first, from.Number(from.count - 1) + 1);
  const int64_t size = graph::ByteSize(values.dtype);
  upload().Enqueue(
      needed.data, needed.count * size, stream_,
      [&](const std::byte* chunk, int64_t begin, int64_t bytes) {
        const int64_t number = first + begin / size;
        const int64_t here = from.Below(number);
        const int64_t behind = from.Below(number + bytes / size);
        Stripe part = from.Part(here, behind);
        part.first -= number;
        EnqueueValues(to.Part(here, behind), part, {values.dtype, chunk, bytes / size}, stream_);
      });
}

void CudaStore::Store(std::byte* to, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const auto size = static_cast<int64_t>(bytes.size());
  if (!IsStaged(bytes.data())) return upload().Write(to, bytes.data(), size, stream_);
  gpu::Check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyDefault, stream_),
             "cudaMemcpyAsync");
}

CudaUpload& CudaStore::upload() {
  if (!upload_) upload_.emplace();
  return *upload_;
}

void CudaStore::Await() {
  const CudaEvent done;
  {
    const std::lock_guard lock(mutex_);
    done.Record(stream_);
  }
  done.Wait();
}

std::span<std::byte> CudaStore::Staging(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  staging_.reset();
  if (bytes == 0) return {};
  staging_.emplace(CudaBuffer::Kind::kPinned, bytes, "pinned memory for weights that are read");
  return {staging_->data(), static_cast<size_t>(bytes)};
}

}  // namespace plimsoll::runtime
