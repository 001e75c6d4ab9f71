// Optimizer updates of one parameter. They write persistent tensors in place: parameter, moments
// and counter are inputs and outputs of their node at once.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// count += 1. count is a persistent i32[]: the number of the update that follows, from 1 on.
void Increment(graph::Builder& g, graph::Value count, std::string_view name = "");

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

// Adam with decoupled weight decay, as torch.optim.AdamW computes it. Kingma, Ba, 2015, algorithm
// 1; Loshchilov, Hutter, 2019, algorithm 2. With t = count and g the gradient times clip:
//   p ← p · (1 − lr · weight_decay)
//   m ← m + (1 − β₁)(g − m),   v ← β₂ · v + (1 − β₂) · g²
//   p ← p − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps)
// p, m, v persistent and gradient, all of one type; lr f32[]; count i32[] ≥ 1; clip f32[] or
// kNoTensor.
void AdamW(graph::Builder& g, graph::Value p, graph::Value gradient, graph::Value m, graph::Value v,
           graph::Value lr, graph::Value count, graph::Value clip, const AdamWOptions& options,
           std::string_view name = "");

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

// Stochastic gradient descent, as torch.optim.SGD with dampening 0. With g the gradient times clip:
//   g ← g + weight_decay · p
//   buffer ← momentum · buffer + g;   g ← buffer, with nesterov g + momentum · buffer
//   p ← p − lr · g
// p persistent; momentum persistent, starting at zero, or kNoTensor when options.momentum is 0.
void Sgd(graph::Builder& g, graph::Value p, graph::Value gradient, graph::Value momentum,
         graph::Value lr, graph::Value clip, const SgdOptions& options, std::string_view name = "");

}  // namespace plimsoll::ops
