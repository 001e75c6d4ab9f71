// Convolutions by cuDNN (ops/convolution/conv.h has the formulas and the layout), in float32, TF32,
// bf16 and fp16, without bias and without a sum that is continued.
//
// Engines that give other bits in a second run, that sum in a narrower type or convert their inputs
// to one (but for TF32), and FFT and Winograd transforms are left out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "gpu/libraries.h"
#include "graph/dtype.h"
#include "ops/convolution/conv_geometry.h"

namespace plimsoll::ops {

enum class ConvPass {
  kForward,  // x, weight → y
  kDx,       // dy, weight → dx
  kDw,       // x, dy → dweight
};

// All tensors have this type.
struct ConvProblem {
  ConvPass pass;
  graph::DType dtype;
  bool tf32 = false;  // with float32
  ConvGeometry geometry;
  int64_t workspace_limit = 0;  // bytes

  friend auto operator<=>(const ConvProblem&, const ConvProblem&) = default;
};

class CudnnConvolution;

// The execution plan for a problem on the current device: built at the first request (tens of
// milliseconds, and cuDNN may load kernels), kept for the process. nullptr when cuDNN has none;
// `reason` then says why. Not to be called first during a stream capture.
const CudnnConvolution* FindCudnnConvolution(const ConvProblem& problem, gpu::Libraries& libraries,
                                             std::string& reason);

// Two operands and the result, in the order of ConvPass; all 16-byte aligned, the workspace 256.
void RunCudnnConvolution(const CudnnConvolution& convolution, gpu::Libraries& libraries,
                         cudaStream_t stream, const void* a, const void* b, void* result,
                         void* workspace);

}  // namespace plimsoll::ops
