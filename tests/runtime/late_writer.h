// A kernel with late results: a kernel that is launched to begin early may begin long before them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace plimsoll {

// Sets data[i] = value for i < count, some 200 µs after the kernel has let the next one begin.
void WriteLate(float* data, int64_t count, float value, cudaStream_t stream);

}  // namespace plimsoll
