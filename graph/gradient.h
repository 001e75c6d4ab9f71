// The interface of an op's gradient rule. Reverse mode: given the gradients of a node's outputs,
// the rule emits nodes that compute the gradients of its inputs.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace plimsoll::graph {

class GradientContext {
 public:
  GradientContext(Builder& builder, const Node& node, std::vector<Value> output_gradients,
                  std::vector<bool> wanted, std::vector<Value> partials)
      : builder_(builder),
        node_(node),
        output_gradients_(std::move(output_gradients)),
        wanted_(std::move(wanted)),
        partials_(std::move(partials)),
        taken_(wanted_.size(), false),
        input_gradients_(wanted_.size(), kNoTensor) {}

  Builder& builder() { return builder_; }
  const Attributes& attributes() const { return node_.attributes; }

  Value input(size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : kNoTensor; }
  Value output(size_t i) const { return node_.outputs[i]; }

  // The gradient of output i. kNoTensor if the loss does not depend on that output.
  Value output_gradient(size_t i) const { return output_gradients_[i]; }

  // Whether the gradient of input i is needed. If not, emit nothing for it.
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }

  // Takes over the sum of the gradients that input i has received from later uses (or from earlier
  // micro-steps); kNoTensor if it has received none. The gradient then given to SetGradient must
  // include that sum; ops with an accumulating input ("acc") add it in the same kernel. If a rule
  // doesn't call this, an add is emitted after it.
  Value TakePartial(size_t i) {
    taken_[i] = true;
    return partials_[i];
  }

  void SetGradient(size_t i, Value gradient) { input_gradients_[i] = gradient; }

  // Accessors for the autodiff pass.
  bool taken(size_t i) const { return taken_[i]; }
  Value input_gradient(size_t i) const { return input_gradients_[i]; }

 private:
  Builder& builder_;
  const Node node_;  // a copy: emitting nodes reallocates the program's vector
  std::vector<Value> output_gradients_;
  std::vector<bool> wanted_;
  std::vector<Value> partials_;
  std::vector<bool> taken_;
  std::vector<Value> input_gradients_;
};

}  // namespace plimsoll::graph
