// The GPUs for which a build has code. A build names its architectures like nvcc: "75,80,90a".
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::gpu {

// Machine code for X.Y runs on X.Z with Z ≥ Y; with a letter ("90a") only on X.Y.
bool HasCodeFor(std::string_view architectures, int major, int minor);

// The name of such a GPU in that list: "90".
std::string ArchitectureOf(int major, int minor);

}  // namespace plimsoll::gpu
