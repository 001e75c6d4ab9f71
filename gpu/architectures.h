// The GPU architectures for which a build has code, in nvcc's notation: "75,80,90a".
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::gpu {

// Whether GPUs of a compute capability can run the code of a build. Machine code for X.Y runs on
// X.Z with Z ≥ Y; code with a letter ("90a") runs only on X.Y.
bool HasCodeFor(std::string_view architectures, int major, int minor);

// The name of this compute capability in such a list: "90".
std::string ArchitectureOf(int major, int minor);

}  // namespace plimsoll::gpu
