// Launches a second stage while its first stage ends (programmatic dependent launch, from sm_90
// on), so that the second launch takes no additional time. The first kernel calls
// LetDependentsLaunch() when the second may use the resources that its blocks leave free. All
// threads of the second kernel call AwaitFirstStage() before they read results of the first.
#pragma once

#include <cuda_runtime.h>

#include "gpu/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

__device__ inline void LetDependentsLaunch() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Waits until all results of the first kernel can be read.
__device__ inline void AwaitFirstStage() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Launches `kernel` as the second stage of the previous kernel on the stream.
template <typename... Parameters>
void LaunchDependent(void (*kernel)(Parameters...), dim3 grid, dim3 block, const CudaContext& ctx,
                     Parameters... parameters) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = ctx.stream;
  config.attrs = &overlap;
  config.numAttrs = ctx.libraries.capability().major >= 9 ? 1 : 0;
  gpu::Check(cudaLaunchKernelEx(&config, kernel, parameters...), "cudaLaunchKernelEx");
}

}  // namespace plimsoll::ops
