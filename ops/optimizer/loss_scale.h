// Loss scaling: keeps gradients that are too small for float16 from vanishing. The loss is scaled
// up before the backward pass, and the update divides by the same scale. Micikevicius et al. 2018,
// "Mixed Precision Training", section 3.2; the dynamic scale has the names and the rule of
// PyTorch's torch.amp.GradScaler.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"
#include "ops/optimizer/update_gate.h"

namespace plimsoll::ops {

struct LossScaleOptions {
  bool dynamic = true;  // false: the scale is constant, but overflows still skip the step
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // consecutive good steps before the scale grows
  double min_scale = 1;            // the lower limit of the scale
};

struct LossScaleStep {
  graph::Value grad_norm;  // f32[], the norm of the unscaled gradients; not finite on an overflow
  graph::Value inverse;    // f32[], 1 / scale: the factor that unscales this step's gradients
  graph::Value apply;      // i32[], 1: update; 0: skip this step
};

// Decides about one step, from the norm of all scaled gradients. An infinity or a NaN in any
// gradient makes the norm infinite or NaN, so that overflows are found without another pass over
// the gradients.
//   overflow:   apply = 0;  scale ← max(scale · backoff_factor, min_scale);  tracker ← 0
//   otherwise:  apply = 1;  tracker ← tracker + 1; when it reaches growth_interval:
//               scale ← scale · growth_factor unless that is infinite;  tracker ← 0
// grad_norm and inverse use the scale before this change. Without `dynamic`, scale and tracker
// don't change. With `limits.loss`, apply is also 0 when the loss is not finite or beyond its
// limit, or grad_norm is beyond limits.norm; this doesn't affect the scale. `skipped` counts the
// skipped steps: in total, and consecutive ones (0 after a good step).
//
// norm f32[]. Persistent and updated in place: scale f32[], tracker i32[], skipped i32[2].
// `grad_norm_metric` f32[]: the persistent tensor for grad_norm; kNoTensor: a new one.
LossScaleStep EmitLossScaleStep(graph::Builder& g, graph::Value norm, graph::Value scale,
                                graph::Value tracker, graph::Value skipped,
                                graph::Value grad_norm_metric, const LossScaleOptions& options,
                                const UpdateLimits& limits = {});

}  // namespace plimsoll::ops
