// A kernel whose results are late: what is launched so as to begin early may begin long before.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace plimsoll {

// data[i] = value for i < count, some 200 µs after the kernel has let the next one begin.
void WriteLate(float* data, int64_t count, float value, cudaStream_t stream);

}  // namespace plimsoll
