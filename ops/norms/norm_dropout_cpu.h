// Dropout within CPU kernels of norms (ops/norms/norm_dropout.h). They run the kernel of the op
// `dropout`, and so have its bits.
#pragma once

#include <array>

#include "ops/kernel.h"

namespace plimsoll::ops {

// y = x with elements dropped. y may be x.
inline void RunDropout(const CpuContext& ctx, const TensorRef& x, const TensorRef& rng,
                       const TensorRef& y) {
  const std::array inputs = {x, rng};
  const std::array outputs = {y};
  FindCpuKernel("dropout")->run({{graph::OpRegistry::Get().Require("dropout"), inputs, outputs,
                                  ctx.attributes, nullptr, 0, ctx.ranks},
                                 ctx.pool});
}

}  // namespace plimsoll::ops
