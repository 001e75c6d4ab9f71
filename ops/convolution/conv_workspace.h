// The scratch memory of convolutions on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/op.h"
#include "ops/definition.h"

namespace plimsoll::ops {

// Bytes that cuDNN may use for a convolution. The limit depends only on the call, so that the same
// algorithm is chosen within every budget: the bytes of the arguments, at most 64 MiB.
inline int64_t ConvWorkspaceLimit(const graph::OpCall& call) {
  const auto arguments = static_cast<int64_t>(ArgumentBytes(call));
  return std::clamp<int64_t>(arguments, int64_t{1} << 20, int64_t{64} << 20) / 256 * 256;
}

// Bytes after the limit's, for a gradient that is then added to the output, or widened for it.
inline int64_t StagedGradientBytes(const graph::TensorType& gradient) {
  return (gradient.bytes() + 255) / 256 * 256;
}

}  // namespace plimsoll::ops
