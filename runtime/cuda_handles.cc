#include "runtime/cuda_handles.h"

#include <fmt/format.h>
#include <nccl.h>

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

}  // namespace

CudaBuffer::CudaBuffer(Kind kind, int64_t bytes, const char* what) : kind_(kind), bytes_(bytes) {
  if (bytes < 0) throw InternalError(fmt::format("{} of {} bytes", what, bytes));
  if (bytes == 0) return;
  void* data = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const cudaError_t status = Allocate(kind, size, &data);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is reported here
    std::string free_text;
    size_t free = 0, total = 0;
    if (kind != Kind::kPinned && cudaMemGetInfo(&free, &total) == cudaSuccess) {
      free_text = fmt::format("; {} of the GPU's {} are free", FormatBytes(int64_t(free)),
                              FormatBytes(int64_t(total)));
    }
    throw UserError(
        fmt::format("device: {} of {} ({} bytes) cannot be had{}; {}", what, FormatBytes(bytes),
                    bytes, free_text,
                    kind != Kind::kPinned
                        ? "end what else uses the GPU (nvidia-smi lists it), or set a smaller "
                          "memory.budget"
                        : "set a smaller memory.host_budget, or raise the system's limit of locked "
                          "memory"),
        ExitCode::kBudgetNotMet);
  }
  gpu::Check(status, kind == Kind::kPinned ? "cudaHostAlloc" : "cudaMalloc");
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
