// A second stage that is launched while its first stage ends (programmatic dependent launch, from
// sm_90 on), so that its launch costs no time of its own. The first kernel says by
// LetDependentsLaunch() when the second may take what its blocks leave free; the second waits in
// AwaitFirstStage(), by all of its threads, before it reads what the first wrote.
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

// Until all that the first kernel wrote can be read.
__device__ inline void AwaitFirstStage() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Launches `kernel` as the second stage of the kernel that was launched on the stream before it.
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
  config.numAttrs = ctx.libraries.properties().major >= 9 ? 1 : 0;
  gpu::Check(cudaLaunchKernelEx(&config, kernel, parameters...), "cudaLaunchKernelEx");
}

}  // namespace plimsoll::ops
