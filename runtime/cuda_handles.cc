#include "runtime/cuda_handles.h"

#include <fmt/format.h>
#include <nccl.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::runtime {
namespace {

cudaError_t Allocate(CudaBuffer::Kind kind, size_t bytes, void** data) {
  switch (kind) {
    case CudaBuffer::Kind::kDevice:
      return cudaMalloc(data, bytes);
    case CudaBuffer::Kind::kShared:
      // NCCL only reports that it failed; its calls of the driver can fail for no other reason.
      return ncclMemAlloc(data, bytes) == ncclSuccess ? cudaSuccess : cudaErrorMemoryAllocation;
    case CudaBuffer::Kind::kPinned:
      break;
  }
  return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}

// Pinned memory cannot be swapped, and systems limit it.
[[noreturn]] void RefusePinning(cudaError_t status, int64_t bytes, const char* what) {
  cudaGetLastError();  // it is reported here
  rlimit limit{};
  const bool limited =
      getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(bytes);
  throw UserError(
      fmt::format(
          "memory.host_budget: the system refuses {} of {} ({} bytes), which stays where it "
          "is while the GPU copies: {}{}; set a smaller memory.host_budget, or keep more on "
          "the GPU (memory.weights, memory.gradients, optimizer.place, "
          "checkpointing.offload)",
          what, FormatBytes(bytes), bytes, cudaGetErrorString(status),
          limited ? fmt::format("; this process may lock {} (ulimit -l, LimitMEMLOCK)",
                                FormatBytes(static_cast<int64_t>(limit.rlim_cur)))
                  : ""),
      ExitCode::kBudgetNotMet);
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
  void* data = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const cudaError_t status = Allocate(kind, size, &data);
  if (status != cudaSuccess && kind == Kind::kPinned) RefusePinning(status, bytes, what);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is reported here
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
  if (data_ == nullptr) return;
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
