// The loss of segmentation: Dice, cross-entropy, or both. B samples of V voxels each, C classes.
//
//   p = softmax(logits[b,v]),   t = [c = labels[b,v]]
//   I[b,c] = Σ_v p·t,   G[b,c] = Σ_v t,   P[b,c] = Σ_v p (Σ_v p² with squared_pred)
//   dice[b] = mean of 1 − (2·I + smooth_nr) / (G + P + smooth_dr) over the classes c; without
//             include_background only over c ≥ 1
//   ce[b]   = mean of −log p[labels[b,v]] over the voxels v
//   loss    = weight · Σ_b (lambda_dice · dice[b] + lambda_ce · ce[b])
//
// Milletari et al. 2016, "V-Net", section 3, as MONAI defines it: DiceLoss and DiceCELoss with
// softmax, to_onehot_y, batch=False and reduction="mean" (t² is t). A voxel whose label is negative
// is ignored: it is in no sum and no mean, and has no gradient. If a sample has no voxels, its
// ce[b] is 0.
//
// logits[B,...,C] of one float dtype S, 2 to 64 classes; labels i32[B,...] below C; weight f32[]
// (1 / samples of the step). loss and dloss have S's compute type. A label ≥ C is an InternalError
// on the CPU and makes the loss NaN on a GPU: code that reads labels checks them.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

inline constexpr int64_t kMostDiceClasses = 64;

struct DiceOptions {
  bool include_background = true;
  bool squared_pred = false;
  double smooth_nr = 1e-5, smooth_dr = 1e-5;
  double lambda_dice = 1, lambda_ce = 0;  // MONAI's DiceCELoss: 1, 1
};

// Returns the loss.
graph::Value DiceLoss(graph::Builder& g, graph::Value logits, graph::Value labels,
                      graph::Value weight, const DiceOptions& options = {},
                      std::string_view name = "");

}  // namespace plimsoll::ops
