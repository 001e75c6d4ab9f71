// Convolutions by cuDNN (ops/convolution/conv.h has the formulas and the layout), in float32, TF32,
// bf16 and fp16, without bias and without a sum that is continued.
//
// Engines that give other bits in a second run, that sum in a narrower type or convert their inputs
// to one (but for TF32), and FFT and Winograd transforms are left out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

// Device addresses; nothing may overlap.
struct ConvBuffers {
  const void* a =
      nullptr;  // the operands in the order of ConvPass, and the result: 16-byte aligned
  const void* b = nullptr;
  void* result = nullptr;
  void* workspace = nullptr;  // of the problem's limit, 256-byte aligned; its content is arbitrary
                              // before and after
};

// The plans by which cuDNN could compute a problem on the current device: each is one of its
// engines with a setting of that engine's knobs. A plan has to be built before it can run; what was
// built is held as long as this lives. Not to be made or built during a stream capture.
class CudnnConvolution {
 public:
  CudnnConvolution(const ConvProblem& problem, gpu::Libraries& libraries);
  ~CudnnConvolution();
  CudnnConvolution(const CudnnConvolution&) = delete;
  CudnnConvolution& operator=(const CudnnConvolution&) = delete;

  // The names of the plans, the favourites of cuDNN's heuristics first. A name is an engine and its
  // knobs, such as "eng38_k2=4_k5=1"; it means the same in every process with this version of
  // cuDNN. The list includes plans that can't be built and plans that are left out. It is empty if
  // no plan exists.
  const std::vector<std::string>& names() const;

  // False when cuDNN can't build the plan, it is left out, or it needs more than the workspace.
  // Takes up to tens of milliseconds; cuDNN may load kernels.
  bool Build(size_t plan);

  // The workspace of a plan that is built.
  int64_t WorkspaceBytes(size_t plan) const;
  // Enqueues the convolution. Returns an empty text, or why cuDNN can't after all.
  std::string Run(size_t plan, gpu::Libraries& libraries, cudaStream_t stream,
                  const ConvBuffers& buffers) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::ops
