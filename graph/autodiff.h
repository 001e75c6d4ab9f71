// Reverse-mode differentiation: appends the backward pass to a forward program.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::graph {

// What happens to the gradients and the metrics (the loss is one of them) at the end of a program.
// A step of several micro-steps sums both over its programs.
enum class Carry : uint8_t {
  kNone,        // one micro-step a step: gradients are temporaries, consumed by the update
  kWrite,       // first of several: written to carried tensors
  kAccumulate,  // middle and last: added to them
};

struct AutodiffOptions {
  std::string loss = "loss";  // the float scalar to differentiate
  // Metrics that are summed over the micro-steps like the loss. They have no gradient.
  std::vector<std::string> metrics = {};
  Carry carry = Carry::kNone;
  // Selects the parameters whose gradients are carried; empty: all. The other gradients are
  // temporaries in any case; a later pass decides what of them is carried.
  std::function<bool(const Tensor& parameter)> carries = {};
  // Selects parameters that are constants here: they get no gradient, and nodes that depend
  // on no other parameter are not differentiated. Empty: none.
  std::function<bool(const Tensor& parameter)> frozen = {};
  // The carried f32[] state ("loss_scale") that multiplies the loss before it is differentiated, so
  // that it multiplies all gradients. Empty: 1.
  std::string loss_scale = "";
};

// The gradient of parameter "w" is the tensor "w.grad"; a parameter that the loss doesn't depend on
// has none. Gradients of bf16 and f16 parameters are float32. The loss and the other metrics become
// tensors that the host reads (Role::kMetric), the loss without its scale. Sums have a fixed
// operand order: later uses first, but where the loss is a sum of losses, the uses of the first of
// them come before those of the next (LossTerms). A sum is float32 when one part is
// float32 and another has 16 bits.
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

// The forward nodes whose scalars add up to the scalar `loss`, in their order: what lies between
// computes with scalars alone. One node where the loss is no sum.
std::vector<size_t> LossTerms(const Program& program, TensorId loss);

// The name of a metric's value in this micro-step alone, in programs that add it to those before.
std::string MicroStepMetric(std::string_view metric);

}  // namespace plimsoll::graph
