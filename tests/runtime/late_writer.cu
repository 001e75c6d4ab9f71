// One thread per element, grid-stride, in so few blocks that all run at once with room for others.
// Bytes: 4 per element.
#include "gpu/check.h"
#include "tests/runtime/late_writer.h"

namespace plimsoll {
namespace {

__global__ void WriteLateKernel(float* data, int64_t count, float value) {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  const long long start = clock64();
  while (clock64() - start < 400'000) {
  }
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    data[i] = value;
  }
}

}  // namespace

void WriteLate(float* data, int64_t count, float value, cudaStream_t stream) {
  WriteLateKernel<<<64, 256, 0, stream>>>(data, count, value);
  gpu::CheckLaunch("WriteLate");
}

}  // namespace plimsoll
