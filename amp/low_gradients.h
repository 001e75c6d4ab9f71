// Gradients of weights as bf16 tensors (amp.grad_dtype). They take half the memory, also when
// micro-steps carry them, and half the bytes that ranks sum.
#pragma once

#include "graph/pass.h"

namespace plimsoll::amp {

// Runs after Autodiff. The float32 gradients of parameters with two or more dimensions become bf16.
// Gradients of vectors (norms, biases) stay float32: vectors are few, and sensitive. Every node
// that contributes to a gradient computes its contribution in float32, and rounds it once:
//
//   %w.grad = linear_dw(%x, %dy)                   %w.grad.wide = linear_dw(%x, %dy)
//                                                  %w.grad = cast(%w.grad.wide)
//
//   %w.grad = linear_dw(%x, %dy, %w.grad)          %w.grad.wide = linear_dw(%x, %dy)
//                                                  %w.grad = add_rounded(%w.grad, %w.grad.wide)
//
// The first contribution is rounded to the nearest. A contribution is rounded stochastically if it
// is added to those of other uses of the weight, or of earlier micro-steps
// (ops/elementwise/add_rounded.h). Ops with bf16 operands whose own kernels round so
// (graph::OpDef::low_gradients) need no float32 gradient.
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
