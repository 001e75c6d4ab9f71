// Every call of CUDA, cuBLAS and cuDNN is checked by one of these. The executor adds the op, its
// tensors and their shapes.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace plimsoll::gpu {

// Nothing on success. `call` names what was called: "cudaMalloc". UserError where the machine is at
// fault, with the way out: no device, a driver too old, a GPU that this build has no code for, too
// little memory. Otherwise InternalError.
void Check(cudaError_t status, const char* call);
void Check(cublasStatus_t status, const char* call);
void Check(cudnnStatus_t status, const char* call);

// Of the launch that came before.
void CheckLaunch(const char* kernel);

}  // namespace plimsoll::gpu
