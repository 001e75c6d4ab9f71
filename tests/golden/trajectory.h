// Reference trajectories: a Hugging Face checkpoint, tokens, and PyTorch's losses, gradient norms
// and final weights over some steps of AdamW. A folder holds
//   config.json, model.safetensors   the weights before training
//   tokens.bin                       uint16; consecutive windows of batch × sequence
//   expected.json                    batch, sequence, accumulate, optimizer, and per step the mean
//                                    loss and the gradient norm before clipping
//   final.safetensors                the weights after the last step
//   logits.safetensors               optional: of the first row, before training, f32
//                                    [sequence,vocab]; each by generation with a cache
// or, for adapters of a frozen model,
//   expected.json                    also base: the neighbouring folder with model and tokens
//   adapter, final                   PEFT's folders, before training and after the last step
//   logits.safetensors               as above
#pragma once

#include <string>

#include "runtime/device.h"

namespace plimsoll::golden {

// The largest deviations from the reference.
struct Deviations {
  int steps = 0;
  double loss = 0;       // relative, the largest of all steps
  double grad_norm = 0;  // relative, the largest of all steps
  double weights = 0;    // |final − expected| / |expected|, over all trained weights together
  double logits = 0;     // the same of the logits
  std::string worst_parameter;
  double worst_parameter_deviation = 0;  // the same of that parameter alone
};

// Trains in float32 on that device as the folder says. UserErrors name the faulty file.
Deviations FollowTrajectory(const std::string& folder, runtime::Device& device);

// The tolerances within which two trajectories count as the same.
inline constexpr double kLossTolerance = 1e-4;
inline constexpr double kGradNormTolerance = 1e-3;
inline constexpr double kWeightsTolerance = 1e-3;
inline constexpr double kLogitsTolerance = 1e-5;

inline bool WithinTolerance(const Deviations& d) {
  return d.loss <= kLossTolerance && d.grad_norm <= kGradNormTolerance &&
         d.weights <= kWeightsTolerance && d.logits <= kLogitsTolerance;
}

}  // namespace plimsoll::golden
