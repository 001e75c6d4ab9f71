// Reverse-mode differentiation: appends the backward pass to a forward program.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::graph {

// How a program ends with gradients and metrics (the loss is a metric). A step of several
// micro-steps sums gradients and metrics over its programs.
enum class Carry : uint8_t {
  kNone,        // one micro-step per step: gradients are temporaries, consumed by the update
  kWrite,       // the first of several micro-steps: gradients are written to carried tensors
  kAccumulate,  // the other micro-steps: gradients are added to the carried tensors
};

struct AutodiffOptions {
  std::string loss = "loss";  // the float scalar to differentiate
  // Metrics that are summed over the micro-steps like the loss. They have no gradient.
  std::vector<std::string> metrics = {};
  Carry carry = Carry::kNone;
  // Selects the parameters whose gradients are carried; empty means all. The gradients of the other
  // parameters are temporaries in any case; a pass after this one decides which parts of them are
  // carried.
  std::function<bool(const Tensor& parameter)> carries = {};
  // Selects parameters that are constants here: they get no gradient, and nodes that depend on no
  // other parameter are not differentiated. Empty means no parameter.
  std::function<bool(const Tensor& parameter)> frozen = {};
  // The name of the carried f32[] state ("loss_scale") that multiplies the loss before it is
  // differentiated, and so all gradients. Empty if the loss is not scaled.
  std::string loss_scale = "";
};

// The gradient of parameter "w" is the tensor "w.grad"; a parameter that the loss doesn't depend on
// has no gradient. Gradients of bf16 and f16 parameters are float32. The loss and the other metrics
// become tensors that the host reads (Role::kMetric), the loss without its scale. Sums have a fixed
// operand order: later uses first; if the loss is a sum of losses, the uses by the first of these
// losses come before the uses by the next one (LossTerms). A sum is float32 if one operand is
// float32 and the other has 16 bits.
//
// Throws an InternalError that names the op when the loss depends on a trained parameter through an
// op that has neither a gradient nor OpDef::stops_gradient, or when an op's rule gives no gradient
// of an input through which the loss depends on a trained parameter.
class Autodiff : public Pass {
 public:
  explicit Autodiff(AutodiffOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "autodiff"; }
  Contract contract() const override {
    return {.needs = {Fact::kTyped},
            .gives = {Fact::kDifferentiated},
            .spoils = FactsFrom(Fact::kQuantized)};
  }
  PassResult Run(Program& program) override;

 private:
  AutodiffOptions options_;
};

// The forward nodes whose scalars add up to the scalar `loss`, in program order. Only scalars are
// computed between these nodes and the loss. If the loss is no sum, the result is one node.
std::vector<size_t> LossTerms(const Program& program, TensorId loss);

// The name of a metric's value in this micro-step alone, in programs that add it to the values of
// earlier micro-steps.
std::string MicroStepMetric(std::string_view metric);

}  // namespace plimsoll::graph
