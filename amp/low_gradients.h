// Gradients of weights as bf16 tensors (amp.grad_dtype): half the memory, also where micro-steps
// carry them, and half the bytes that ranks sum.
#pragma once

#include "graph/pass.h"

namespace plimsoll::amp {

// Runs after Autodiff. The float32 gradients of parameters with two dimensions and more become
// bf16; those of vectors (norms, biases) stay float32: they are few, and sensitive. Every node that
// contributes to a gradient computes it in float32, and rounds it once:
//
//   %w.grad = linear_dw(%x, %dy)                   %w.grad.wide = linear_dw(%x, %dy)
//                                                  %w.grad = cast(%w.grad.wide)
//
//   %w.grad = linear_dw(%x, %dy, %w.grad)          %w.grad.wide = linear_dw(%x, %dy)
//                                                  %w.grad = add_rounded(%w.grad, %w.grad.wide)
//
// to the nearest where it is the first, and stochastically where it is added to what other uses of
// the weight, or earlier micro-steps, have given (ops/elementwise/add_rounded.h). Ops that can do
// so in their own kernels (graph::OpDef::low_gradients), with bf16 operands, need no float32
// gradient.
class LowGradients : public graph::Pass {
 public:
  std::string_view name() const override { return "low_gradients"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kDifferentiated},
            .spoils = graph::FactsFrom(graph::Fact::kQuantized)};
  }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::amp
