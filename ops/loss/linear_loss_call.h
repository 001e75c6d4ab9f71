// Code that the definitions of linear_cross_entropy and linear_log_probs share: checks, types,
// gradients, costs and CUDA workspaces of calls whose inputs 0 to 2 are x[...,D], weight[V,D] and
// targets i32[...].
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/collectives/vocabulary_shard.h"
#include "ops/definition.h"
#include "ops/loss/linear_cross_entropy.h"

namespace plimsoll::ops::linear_loss {

// Checks x, weight and targets, which are inputs 0 to 2, and the bias at input `bias`.
inline void CheckLinearLoss(const graph::OpCall& call, size_t bias) {
  SplitsVocabulary(call.attributes);
  const graph::TensorType& x = call.input(0);
  const graph::TensorType& weight = call.input(1);
  const graph::TensorType& targets = call.input(2);
  graph::Check(graph::IsFloat(x.dtype) && weight.dtype == x.dtype, call,
               "x and weight need one float dtype");
  graph::Check(
      x.shape.rank() >= 1 && weight.shape.rank() == 2 && x.shape.dim(-1) == weight.shape.dim(1),
      call, "needs x[...,D] and weight[V,D]");
  graph::Check(targets.dtype == graph::DType::kInt32 && targets.shape == x.shape.DropLast(), call,
               "targets are not i32 of the shape of x's rows");
  graph::Check(LossSoftcap(call.attributes) >= 0, call, "needs a softcap of 0 (none) or more");
  CheckAbsentOr(call, bias, {weight.dtype, graph::Shape{weight.shape.dim(0)}});
}

// The type of the rows' lse.
inline graph::TensorType Rows(const graph::OpCall& call) {
  return {graph::ComputeType(call.input(0).dtype), graph::Shape{call.input(0).shape.rows()}};
}

// The type of dweight. `rng`: the input to draw from, for a low gradient.
inline graph::TensorType WeightGradient(const graph::OpCall& call, size_t rng) {
  const graph::DType dtype = call.input(1).dtype;
  return {MakesLowGradient(call, rng) ? dtype : graph::ComputeType(dtype), call.input(1).shape};
}

// The type of dbias, empty without a bias. `bias`: the input of the bias.
inline graph::TensorType BiasGradient(const graph::OpCall& call, size_t bias) {
  const int64_t elements = call.has_input(bias) ? call.input(1).shape.dim(0) : 0;
  return {graph::ComputeType(call.input(1).dtype), graph::Shape{elements}};
}

// The cost of `products` matrix products, of which `again` are recomputations, and of
// `exponentials` passes over the logits, at 10 FLOPs per logit; a soft cap takes 20 more.
inline graph::Cost LossCost(const graph::OpCall& call, int products, int again, int exponentials) {
  const double logits = static_cast<double>(call.input(0).shape.rows()) *
                        static_cast<double>(call.input(1).shape.dim(0));
  const double width = static_cast<double>(call.input(0).shape.dim(-1));
  const double cap = LossSoftcap(call.attributes) > 0 ? 20 : 0;
  return {logits * (2 * products * width + 10 * exponentials + cap), ArgumentBytes(call),
          logits * 2 * (products - again) * width};
}

// The gradient rule of the op `name`, which has an optional bias at input kBias and the outputs
// {loss or logp, lse}. It emits `name`_backward with these inputs: the inputs before the bias, lse,
// the first output's gradient, acc_weight, bias and acc_bias.
template <size_t kBias>
void LinearLossGradient(const std::string& name, graph::GradientContext& context) {
  using graph::kNoTensor;
  const graph::Value dy = context.output_gradient(0), bias = context.input(kBias);
  const bool x = context.wants(0), weight = context.wants(1);
  const bool wants_bias = bias != kNoTensor && context.wants(kBias);
  if (dy == kNoTensor || (!x && !weight && !wants_bias)) return;
  const graph::Value lse = context.output(1);
  if (lse == kNoTensor) throw InternalError(name + ": differentiated without its output lse");
  std::vector<graph::Value> inputs;
  for (size_t i = 0; i < kBias; ++i) inputs.push_back(context.input(i));
  inputs.insert(inputs.end(), {lse, dy, weight ? context.TakePartial(1) : kNoTensor});
  if (bias != kNoTensor) {
    inputs.insert(inputs.end(), {bias, wants_bias ? context.TakePartial(kBias) : kNoTensor});
  }
  const std::vector<graph::Value> gradients = context.builder().Emit(
      name + "_backward", inputs, Select(context.attributes(), {"axis", "softcap", "tf32"}), "",
      {x, weight, wants_bias});
  if (x) context.SetGradient(0, gradients[0]);
  if (weight) context.SetGradient(1, gradients[1]);
  if (wants_bias) context.SetGradient(kBias, gradients[2]);
}

inline constexpr size_t kAbsent = 99;  // the index of an argument that an op doesn't have

// The workspace of the CUDA kernel of an op with a bias at input kBias, and dx and dweight at the
// outputs kDx and kDweight.
template <size_t kBias, size_t kDx, size_t kDweight>
int64_t CudaLossWorkspace(const graph::OpCall& call, ComputeCapability gpu) {
  const graph::TensorType& x = call.input(0);
  const bool low =
      call.has_output(kDweight) && call.output(kDweight).dtype == graph::DType::kBFloat16;
  return LayOutCudaLoss(x.shape.rows(), call.input(1).shape.dim(0), x.shape.dim(-1), x.dtype,
                        {.split = SplitsVocabulary(call.attributes),
                         .bias = call.has_input(kBias),
                         .low_gradient = low,
                         .dx = call.has_output(kDx),
                         .softcap = LossSoftcap(call.attributes) != 0,
                         .gpu = gpu})
      .bytes;
}

}  // namespace plimsoll::ops::linear_loss
