// Functions that check every call of CUDA, cuBLAS and cuDNN. The executor adds the op, its tensors
// and their shapes.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace plimsoll::gpu {

// Does nothing on success. `call` is the name of the called function: "cudaMalloc". Throws a
// UserError that says what to do when the machine is at fault: no device, a driver too old, a GPU
// for which this build has no code, too little memory. Otherwise throws InternalError.
void Check(cudaError_t status, const char* call);
void Check(cublasStatus_t status, const char* call);
void Check(cudnnStatus_t status, const char* call);

// Checks the preceding launch.
void CheckLaunch(const char* kernel);

}  // namespace plimsoll::gpu
