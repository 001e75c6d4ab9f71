// Decides on the device whether a step's update is applied. A gradient or a loss that is not
// finite, or a loss beyond a limit, must not affect the parameters, and the host doesn't wait to
// check it.
#pragma once

#include <limits>

#include "graph/builder.h"

namespace plimsoll::ops {

// What an update may depend on besides finite gradients. Loss and limit are both set, or neither.
struct UpdateLimits {
  graph::Value loss = graph::kNoTensor;   // f32[], the loss of the complete step
  graph::Value limit = graph::kNoTensor;  // f32[], +inf for no limit
  // The largest norm of the unscaled gradients.
  double norm = std::numeric_limits<double>::infinity();
};

// Returns apply i32[]: 1 when norm and loss are finite, loss ≤ limit and norm ≤ limits.norm,
// otherwise 0: skip the step. `skipped` counts the skipped steps: in total, and consecutive ones (0
// after an applied step).
//
// norm f32[]: over all gradients, so that an infinity or a NaN in any of them is detected.
// Persistent and updated in place: skipped i32[2].
//
// With a scaled loss, loss_scale_step decides instead (ops/optimizer/loss_scale.h).
graph::Value EmitUpdateGate(graph::Builder& g, graph::Value norm, const UpdateLimits& limits,
                            graph::Value skipped);

// A node has the attribute "largest_norm" only if limits.norm is finite.
void SetLargestNorm(graph::Attributes& attributes, const UpdateLimits& limits);
// limits.norm of a node.
float LargestNorm(const graph::Attributes& attributes);

}  // namespace plimsoll::ops
