// The name of a device in files of measured choices.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace plimsoll::ops {

// "NVIDIA H200, compute capability 9.0, 132 multiprocessors, cudnn 91900": the properties on which
// algorithms and their times depend, including the library's version.
std::string NameWithLibrary(const cudaDeviceProp& device, const char* library, size_t version);

}  // namespace plimsoll::ops
