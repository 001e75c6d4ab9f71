// The name of a device in files of measured choices.
#pragma once

#include <cstddef>
#include <string>

#include "gpu/libraries.h"

namespace plimsoll::ops {

// "NVIDIA H200, compute capability 9.0, 132 multiprocessors, cudnn 91900": the properties on which
// algorithms and their times depend, including the library's version. The capability is that by
// which kernels are chosen.
std::string NameWithLibrary(const gpu::Libraries& libraries, const char* library, size_t version);

}  // namespace plimsoll::ops
