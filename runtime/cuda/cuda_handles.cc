#include "runtime/cuda/cuda_handles.h"

#include <fmt/format.h>
#include <nccl.h>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::runtime {
namespace {

// From this size on, threads touch pinned memory before the driver pins it (PinnedMemory).
constexpr int64_t kLargePinned = int64_t{32} << 20;

cudaError_t Allocate(CudaBuffer::Kind kind, size_t bytes, void** data) {
  switch (kind) {
    case CudaBuffer::Kind::kDevice:
      return cudaMalloc(data, bytes);
    case CudaBuffer::Kind::kShared:
      // NCCL reports only that it failed; its driver calls can fail only for lack of memory.
      return ncclMemAlloc(data, bytes) == ncclSuccess ? cudaSuccess : cudaErrorMemoryAllocation;
    case CudaBuffer::Kind::kPinned:
      break;
  }
  return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}

bool IsRecorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  gpu::Check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

void CudaEvent::RecordForOthers(cudaStream_t stream) const {
  gpu::Check(
      cudaEventRecordWithFlags(
          event_, stream, IsRecorded(stream) ? cudaEventRecordExternal : cudaEventRecordDefault),
      "cudaEventRecordWithFlags");
}

void CudaEvent::WaitForOthers(cudaStream_t stream) const {
  gpu::Check(cudaStreamWaitEvent(stream, event_,
                                 IsRecorded(stream) ? cudaEventWaitExternal : cudaEventWaitDefault),
             "cudaStreamWaitEvent");
}

CudaBuffer::CudaBuffer(Kind kind, int64_t bytes, const char* what) : kind_(kind), bytes_(bytes) {
  if (bytes < 0) throw InternalError(fmt::format("{} of {} bytes", what, bytes));
  if (bytes == 0) return;
  if (kind == Kind::kPinned && bytes >= kLargePinned) {
    large_.emplace(bytes, what);
    large_->Await();
    data_ = large_->data();
    return;
  }
  void* data = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const cudaError_t status = Allocate(kind, size, &data);
  if (status != cudaSuccess && kind == Kind::kPinned) {
    cudaGetLastError();  // clears the error, which is reported here
    RefusePinning(cudaGetErrorString(status), bytes, what);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is reported here
    std::string free_text;
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
      free_text = fmt::format("; {} of the GPU's {} are free", FormatBytes(int64_t(free)),
                              FormatBytes(int64_t(total)));
    }
    throw UserError(fmt::format("device: {} of {} ({} bytes) cannot be had{}; end what else uses "
                                "the GPU (nvidia-smi lists it), or set a smaller memory.budget",
                                what, FormatBytes(bytes), bytes, free_text),
                    ExitCode::kBudgetNotMet);
  }
  gpu::Check(status, "cudaMalloc");
  data_ = static_cast<std::byte*>(data);
}

CudaBuffer::~CudaBuffer() {
  if (data_ == nullptr || large_) return;
  switch (kind_) {
    case Kind::kDevice:
      cudaFree(data_);
      break;
    case Kind::kShared:
      ncclMemFree(data_);
      break;
    case Kind::kPinned:
      cudaFreeHost(data_);
      break;
  }
}

}  // namespace plimsoll::runtime
