#include "gpu/libraries.h"

#include "gpu/capability.h"
#include "gpu/check.h"

namespace plimsoll::gpu {
namespace {

int64_t FreeBytes() {
  size_t free = 0, total = 0;
  Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

}  // namespace

Libraries::Libraries() {
  int device = 0;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  Check(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties");
  capability_ = CurrentCapability();
}

Libraries::~Libraries() {
  if (cublas_lt_ != nullptr) cublasLtDestroy(cublas_lt_);
  if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
}

cublasLtHandle_t Libraries::cublas_lt() {
  if (cublas_lt_ == nullptr) {
    const int64_t before = FreeBytes();
    Check(cublasLtCreate(&cublas_lt_), "cublasLtCreate");
    handle_bytes_ += before - FreeBytes();
  }
  return cublas_lt_;
}

cudnnHandle_t Libraries::cudnn(cudaStream_t stream) {
  if (cudnn_ == nullptr) {
    const int64_t before = FreeBytes();
    Check(cudnnCreate(&cudnn_), "cudnnCreate");
    handle_bytes_ += before - FreeBytes();
  }
  Check(cudnnSetStream(cudnn_, stream), "cudnnSetStream");
  return cudnn_;
}

}  // namespace plimsoll::gpu
