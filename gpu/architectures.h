// The GPU architectures for which a build has code, as CUDA_ARCHITECTURES lists them
// (third_party/cuda/configure.bzl): "75,80:90,90a,120+ptx".
#pragma once

#include <string>
#include <string_view>

#include "base/compute_capability.h"

namespace plimsoll::gpu {

// Whether GPUs of a compute capability can run the code of a build. Machine code for X.Y ("80", or
// "75:80" from the features of 7.5) runs on X.Z with Z ≥ Y; code with a letter ("90a") runs only on
// X.Y. PTX ("80+ptx") runs on every GPU from X.Y on, whose driver compiles it.
bool HasCodeFor(std::string_view architectures, ComputeCapability gpu);

// The capability by which a build chooses kernels on that GPU: `wanted`, usually the GPU's own. But
// code that runs there with the features of an older generation ("80:90", or "80+ptx" on a newer
// GPU) lacks what kernels for newer ones use: then it is one of that generation, whose shared
// memory a GPU as `wanted` has.
ComputeCapability KernelCapability(std::string_view architectures, ComputeCapability gpu,
                                   ComputeCapability wanted);

// The name of this compute capability in such a list: "90".
std::string ArchitectureOf(ComputeCapability gpu);

}  // namespace plimsoll::gpu
