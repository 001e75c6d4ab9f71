// Functions that check every call of CUDA, cuBLAS and cuDNN. The executor adds the op, its tensors
// and their shapes to the errors.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace plimsoll::gpu {

// Do nothing on success. `call` is the name of the called function: "cudaMalloc". They throw a
// UserError that says what to do if the machine is at fault: no device, a driver too old, a GPU for
// which this build has no code, too little memory. Otherwise they throw InternalError.
void Check(cudaError_t status, const char* call);
void Check(cublasStatus_t status, const char* call);
void Check(cudnnStatus_t status, const char* call);

// Checks the kernel launch that precedes the call.
void CheckLaunch(const char* kernel);

}  // namespace plimsoll::gpu
