#include "gpu/libraries.h"

#include "gpu/check.h"

namespace plimsoll::gpu {

Libraries::Libraries() {
  int device = 0;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  Check(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties");
}

Libraries::~Libraries() {
  if (cublas_lt_ != nullptr) cublasLtDestroy(cublas_lt_);
  if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
}

cublasLtHandle_t Libraries::cublas_lt() {
  if (cublas_lt_ == nullptr) Check(cublasLtCreate(&cublas_lt_), "cublasLtCreate");
  return cublas_lt_;
}

cudnnHandle_t Libraries::cudnn(cudaStream_t stream) {
  if (cudnn_ == nullptr) Check(cudnnCreate(&cudnn_), "cudnnCreate");
  Check(cudnnSetStream(cudnn_, stream), "cudnnSetStream");
  return cudnn_;
}

}  // namespace plimsoll::gpu
