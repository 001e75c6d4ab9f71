// Tests the gradient rule of an op on one of its examples, in double or another type: the loss is Σ
// y·w over the outputs that are not optional (optional ones are saved statistics), with fixed
// random weights w.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "tests/ops/guarded_call.h"

namespace plimsoll::ops {

class OpGradient {
 public:
  OpGradient(const Example& example, ThreadPool& pool, graph::DType dtype = graph::DType::kFloat64);
  // Uses these inputs instead of the example's own.
  OpGradient(const Example& example, ThreadPool& pool, std::vector<std::optional<HostTensor>> data);

  // The inputs that may have a gradient: present and floating; none when the op has no rule.
  const std::vector<size_t>& inputs() const { return inputs_; }
  // True for inputs that are f32 for any dtype under test (a learning rate, a loss scale).
  bool IsScalarByDefinition(size_t input) const;

  // Gradients by the rule, by input; empty where the rule gave none. With partials, each wanted
  // input gets a random partial gradient first. InternalError when a gradient has neither its
  // input's type nor the input's compute type.
  using Gradients = std::map<size_t, std::optional<std::vector<double>>>;
  Gradients Analytic(const std::vector<size_t>& wanted, bool with_partials = false);

  // About the last call of Analytic: whether the rule took over the partial gradient of this input,
  // its values, the number of emitted nodes, and the emitted tensors that nobody needs (as text;
  // empty when there are none).
  bool taken(size_t input) const { return taken_.at(input); }
  double partial(size_t input, size_t k) const { return partials_.at(input).value(k); }
  size_t emitted() const { return emitted_; }
  const std::string& Unused() const { return unused_; }

  // Derivatives of the loss by central differences along a direction, which has a value for each
  // element of the input.
  double Numeric(size_t input, const std::vector<double>& direction);

 private:
  // Emits the op on persistent tensors "in.I" for the example's inputs.
  void Forward(graph::Program& program) const;
  void FindUnused(const graph::Program& program, const std::vector<graph::TensorId>& gradients);

  const Example& example_;
  ThreadPool& pool_;
  std::vector<std::optional<HostTensor>> data_;
  std::vector<size_t> inputs_;
  std::map<size_t, bool> taken_;
  std::map<size_t, HostTensor> partials_;
  size_t emitted_ = 0;
  std::string unused_;
};

}  // namespace plimsoll::ops
