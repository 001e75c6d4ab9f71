// Runs one op's CUDA kernel in device memory that shows violations of its contract: the counterpart
// of RunKernel in guarded_call.h for the CPU.
#pragma once

#include <optional>
#include <vector>

#include "tests/ops/guarded_call.h"

namespace plimsoll::ops {

struct CudaCallOptions {
  bool capture = false;  // run it as a CUDA graph
  int64_t misalign = 0;  // bytes by which tensors lie off their 256-byte boundaries
};

// Every tensor, and the workspace of exactly the declared size, lies between guard bytes; outputs
// and workspace are filled with poison before the run. Adds a test failure when a guard or an
// unshared input was changed.
std::vector<std::optional<HostTensor>> RunCudaKernel(const GuardedCall& call,
                                                     const CudaCallOptions& options = {});

}  // namespace plimsoll::ops
