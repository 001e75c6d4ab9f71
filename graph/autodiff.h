// Reverse-mode differentiation: appends the backward pass to a forward program.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::graph {

// What happens to the gradients (and the metrics, of which the loss is one) at the end of a
// program. A step of several micro-steps sums both over its programs.
enum class Carry : uint8_t {
  kNone,        // one micro-step a step: gradients are temporaries, consumed by the update
  kWrite,       // first of several: written to carried tensors
  kAccumulate,  // middle and last: added to them
};

struct AutodiffOptions {
  std::string loss = "loss";  // the float scalar to differentiate
  // What else is summed over the micro-steps as the loss is. These have no gradient of their own.
  std::vector<std::string> metrics = {};
  Carry carry = Carry::kNone;
  // Whose gradients are carried; empty: all. Others are temporaries in any case, and it is left to
  // a later pass what is carried of them.
  std::function<bool(const Tensor& parameter)> carries = {};
  // Parameters that are constants here: they get no gradient, and what leads only to them is not
  // differentiated. Empty: none.
  std::function<bool(const Tensor& parameter)> frozen = {};
  // The carried f32[] state by which the loss is multiplied before it is differentiated, so that
  // all gradients are multiples of it ("loss_scale"). Empty: 1.
  std::string loss_scale = "";
};

// The gradient of parameter "w" is the tensor "w.grad"; a parameter that the loss doesn't depend on
// has none. Gradients of bf16 and f16 parameters are float32. The loss and the other metrics
// become tensors that the host reads (Role::kMetric), the loss without its scale. Sums keep a fixed
// operand order: later uses first; where one part is float32 and another has 16 bits, the sum is
// float32.
//
// An op with neither a gradient nor OpDef::stops_gradient through which the loss depends on a
// trained parameter is an InternalError that names it, and so is a rule that gives no gradient of
// an input on which the loss depends so.
class Autodiff : public Pass {
 public:
  explicit Autodiff(AutodiffOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "autodiff"; }
  PassResult Run(Program& program) override;

 private:
  AutodiffOptions options_;
};

// The name of a parameter's gradient.
std::string GradientName(std::string_view parameter);

}  // namespace plimsoll::graph
