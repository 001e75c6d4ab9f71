#include "amp/low_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "ops/elementwise/add_rounded.h"
#include "ops/elementwise/arithmetic.h"

namespace plimsoll::amp {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::TensorId;

// One node's contribution to a gradient.
struct Contribution {
  size_t output;                  // index of the node's output
  std::optional<size_t> before;   // index of the input that holds the sum of earlier contributions
  TensorId gradient = kNoTensor;  // the complete gradient, which the last contribution writes
  TensorId sum = kNoTensor;       // the sum that includes this contribution
};

class Narrower {
 public:
  explicit Narrower(Program& program) : program_(program), g_(program) {
    g_.set_made_by("low_gradients");
    g_.set_phase(graph::Phase::kBackward);
  }

  graph::PassResult Run() {
    for (const auto& [parameter, gradient] : graph::GradientsOf(program_)) {
      FindContributions(gradient);
    }
    if (contributions_.empty()) return {false, "no gradients of matrices"};
    const std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    for (size_t n = 0; n < nodes.size(); ++n) Move(n, nodes[n]);
    program_.DropUnusedTensors();
    return {true, fmt::format("{} in bf16, {} instead of {}", Counted(gradients_, "gradient"),
                              FormatBytes(bytes_), FormatBytes(2 * bytes_))};
  }

 private:
  // The index of the node's output that is tensor `id`.
  static size_t OutputOf(const Node& node, TensorId id) {
    return static_cast<size_t>(std::ranges::find(node.outputs, id) - node.outputs.begin());
  }

  // The index of the node's input to which the node adds its contribution: an optional input that
  // shares the memory of the output, or the first operand of a sum that autodiff has emitted.
  static std::optional<size_t> SumBefore(const Node& node, size_t output) {
    if (node.op->name == "add") return 0;
    for (const graph::InPlacePair& pair : node.op->in_place) {
      const auto input = static_cast<size_t>(pair.input);
      if (static_cast<size_t>(pair.output) != output || !node.op->inputs[input].optional) continue;
      if (input < node.inputs.size() && node.inputs[input] != kNoTensor) return input;
    }
    return std::nullopt;
  }

  // Finds the contributions, from the last node that writes the gradient back to the first.
  void FindContributions(TensorId gradient) {
    const graph::TensorType type = program_.tensor(gradient).type;
    if (type.dtype != DType::kFloat32 || type.shape.rank() < 2) return;
    TensorId sum = gradient;
    for (size_t n = program_.nodes().size(); n-- > 0;) {
      const Node& node = program_.nodes()[n];
      const size_t output = OutputOf(node, sum);
      if (output == node.outputs.size()) continue;
      Contribution contribution{output, SumBefore(node, output), gradient, sum};
      if (contribution.before) sum = node.inputs[*contribution.before];
      const bool first = !contribution.before;
      contributions_[n].push_back(contribution);
      if (first) break;
    }
    program_.mutable_tensor(gradient).type.dtype = DType::kBFloat16;
    ++gradients_;
    bytes_ += program_.tensor(gradient).bytes();
  }

  void Move(size_t n, Node node) {
    const auto found = contributions_.find(n);
    if (found == contributions_.end()) {
      program_.mutable_nodes().push_back(std::move(node));
      return;
    }
    struct Rounded {
      TensorId before, wide, sum;
    };
    std::vector<Rounded> rounded;
    for (const Contribution& made : found->second) {
      if (MakesLow(node, made)) {
        MakeLow(node, made);
        continue;
      }
      TensorId before = kNoTensor, wide;
      if (made.before) before = Narrow(node.inputs[*made.before], made.gradient);
      if (node.op->name == "add") {
        wide = node.inputs[1];
      } else {
        wide = AddTensor(made.gradient, ".wide", DType::kFloat32, Role::kGradient);
        node.outputs[made.output] = wide;
        if (made.before) node.inputs[*made.before] = kNoTensor;
      }
      rounded.push_back({before, wide, Narrow(made.sum, made.gradient)});
    }
    g_.set_scope(node.scope);
    if (node.op->name != "add") {
      while (!node.inputs.empty() && node.inputs.back() == kNoTensor) node.inputs.pop_back();
      program_.mutable_nodes().push_back(std::move(node));
    }
    for (const Rounded& r : rounded) {
      if (r.before == kNoTensor) {
        g_.EmitInto({r.sum}, "cast", {r.wide},
                    {{"dtype", std::string(graph::Name(DType::kBFloat16))}});
      } else {
        g_.EmitInto({r.sum}, "add_rounded", {r.before, r.wide, Rng()}, {{"key", g_.NextKey()}});
      }
    }
  }

  // Whether the op's own kernel writes, or adds to, a bf16 gradient.
  bool MakesLow(const Node& node, const Contribution& made) const {
    // All floating-point operands have the same type. Token ids are integers and don't count.
    const auto operand = std::ranges::find_if(node.inputs, [&](TensorId input) {
      return input != kNoTensor && graph::IsFloat(program_.tensor(input).type.dtype);
    });
    return operand != node.inputs.end() &&
           program_.tensor(*operand).type.dtype == DType::kBFloat16 &&
           std::ranges::any_of(node.op->low_gradients, [&](const graph::InPlacePair& pair) {
             return static_cast<size_t>(pair.output) == made.output;
           });
  }

  void MakeLow(Node& node, const Contribution& made) {
    if (made.before) {
      node.inputs[*made.before] = Narrow(node.inputs[*made.before], made.gradient);
    }
    node.outputs[made.output] = Narrow(made.sum, made.gradient);
    node.inputs.resize(node.op->inputs.size(), kNoTensor);
    const auto rng = std::ranges::find(node.op->inputs, "rng", &graph::Argument::name);
    node.inputs[static_cast<size_t>(rng - node.op->inputs.begin())] = Rng();
    node.attributes.Set("low_gradient", true);
    node.attributes.Set("key", g_.NextKey());
  }

  // The bf16 tensor that replaces a float32 sum of contributions.
  TensorId Narrow(TensorId sum, TensorId gradient) {
    if (sum == gradient) return gradient;
    const auto [found, added] = narrow_.try_emplace(sum, kNoTensor);
    if (added) {
      found->second = AddTensor(gradient, ".part", DType::kBFloat16, Role::kGradient);
    }
    return found->second;
  }

  TensorId AddTensor(TensorId gradient, const char* suffix, DType dtype, Role role) {
    graph::Tensor tensor;
    tensor.name = program_.FreshName(program_.tensor(gradient).name + suffix);
    tensor.type = {dtype, program_.tensor(gradient).type.shape};
    tensor.role = role;
    return program_.AddTensor(std::move(tensor));
  }

  TensorId Rng() {
    const TensorId found = program_.Find("rng");
    return found != kNoTensor ? found : g_.Persistent("rng", Role::kInput, {DType::kInt32, {2}});
  }

  Program& program_;
  graph::Builder g_;
  // Each node's contributions, by index.
  std::map<size_t, std::vector<Contribution>> contributions_;
  std::map<TensorId, TensorId> narrow_;  // the bf16 tensor that replaces each float32 sum
  int gradients_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

graph::PassResult LowGradients::Run(Program& program) { return Narrower(program).Run(); }

}  // namespace plimsoll::amp
