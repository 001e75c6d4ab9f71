// Large operands of measurements.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "gpu/check.h"
#include "tests/ops/cuda_op_runner.h"

namespace plimsoll::bench {

// Normal values, a million of them repeated.
inline ops::CudaTensor NormalValues(graph::DType dtype, graph::Shape shape, int seed) {
  const ops::CudaTensor tensor({dtype, shape});
  const int64_t bytes = tensor.type().bytes();
  const ops::TestTensor some =
      ops::NormalValues(dtype, {std::min<int64_t>(shape.elements(), 1 << 20)}, seed);
  for (int64_t at = 0; at < bytes; at += some.type().bytes()) {
    gpu::Check(cudaMemcpy(static_cast<char*>(tensor.data()) + at, some.data(),
                          std::min(some.type().bytes(), bytes - at), cudaMemcpyDefault),
               "cudaMemcpy");
  }
  return tensor;
}

}  // namespace plimsoll::bench
