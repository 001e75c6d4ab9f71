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

// Whether it has kernels with instructions that only Hopper has.
bool HasHopperCode(std::string_view architectures);

// The name of this compute capability in such a list: "90".
std::string ArchitectureOf(ComputeCapability gpu);

}  // namespace plimsoll::gpu
