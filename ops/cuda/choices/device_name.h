// A device as files of measured choices name it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace plimsoll::ops {

// "NVIDIA H200, compute capability 9.0, 132 multiprocessors, cudnn 91900": what algorithms and
// their times depend on, the version of the library that has them included.
std::string NameWithLibrary(const cudaDeviceProp& device, const char* library, size_t version);

}  // namespace plimsoll::ops
