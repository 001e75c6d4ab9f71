// Which GPUs a build has code for. A build names its architectures as nvcc does: "75,80,90a".
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::gpu {

// Machine code for X.Y runs on X.Z with Z ≥ Y; with a letter ("90a") on X.Y alone.
bool HasCodeFor(std::string_view architectures, int major, int minor);

// What such a GPU is called in that list: "90".
std::string ArchitectureOf(int major, int minor);

}  // namespace plimsoll::gpu
