#include "graph/autodiff.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "graph/gradient.h"
#include "graph/verifier.h"

namespace plimsoll::graph {
namespace {

std::string GradientName(const Tensor& parameter) { return parameter.name + ".grad"; }

class Reverse {
 public:
  Reverse(Program& program, const AutodiffOptions& options)
      : program_(program), options_(options), builder_(program) {
    builder_.set_made_by("autodiff");
    builder_.set_phase(Phase::kBackward);
  }

  // Returns the number of parameters that have a gradient.
  int Run() {
    const Value loss = program_.Require(options_.loss);
    if (program_.tensor(loss).type.shape.rank() != 0 || !IsFloat(builder_.dtype(loss))) {
      throw InternalError("autodiff: '" + options_.loss + "' is no float scalar");
    }
    FindDependents();
    RefuseWithoutGradient(loss);
    if (!depends_[loss]) {
      throw InternalError("autodiff: '" + options_.loss +
                          "' depends on no parameter that is trained");
    }
    const size_t forward_nodes = program_.nodes().size();
    if (options_.carry == Carry::kAccumulate) StartFromCarried(forward_nodes);
    SetPartial(loss, Seed(loss));
    for (size_t i : Order(loss)) Differentiate(i);
    const int count = NameGradients();
    CarryMetric(options_.loss);
    for (const std::string& metric : options_.metrics) CarryMetric(metric);
    program_.DropUnusedTensors();
    return count;
  }

 private:
  std::vector<bool> TrainedParameters() const {
    std::vector<bool> trained;
    for (const Tensor& tensor : program_.tensors()) {
      trained.push_back(tensor.role == Role::kParameter &&
                        !(options_.frozen && options_.frozen(tensor)));
    }
    return trained;
  }

  static bool AnyOf(const std::vector<TensorId>& ids, const std::vector<bool>& marked) {
    return std::ranges::any_of(ids, [&](TensorId id) { return id != kNoTensor && marked[id]; });
  }

  // Computes depends_[t]: whether a parameter reaches tensor t through differentiable ops, so that
  // t's gradient is needed.
  void FindDependents() {
    depends_ = TrainedParameters();
    for (const Node& node : program_.nodes()) {
      if (!node.op->gradient || !AnyOf(node.inputs, depends_)) continue;
      for (TensorId id : node.outputs) {
        if (id != kNoTensor && IsFloat(builder_.dtype(id))) depends_[id] = true;
      }
    }
  }

  // Throws if a parameter reaches the loss through an op that has no gradient and does not declare
  // that it stops gradients: the parameter would be trained by a part of its gradient, or not at
  // all. Integers from a differentiable op are constants (such as which elements were largest).
  // Integers from an op without a gradient may represent floats, so the op has to declare that they
  // don't.
  void RefuseWithoutGradient(Value loss) const {
    const std::vector<Node>& nodes = program_.nodes();
    std::vector<bool> reached = TrainedParameters();
    for (const Node& node : nodes) {
      if (node.op->stops_gradient || !AnyOf(node.inputs, reached)) continue;
      for (TensorId id : node.outputs) {
        if (id == kNoTensor) continue;
        if (!node.op->gradient || IsFloat(builder_.dtype(id))) reached[id] = true;
      }
    }
    std::vector<bool> needed(reached.size(), false);
    needed[loss] = reached[loss];
    for (size_t i = nodes.size(); i-- > 0;) {
      const Node& node = nodes[i];
      if (node.op->stops_gradient || !AnyOf(node.outputs, needed)) continue;
      for (TensorId id : node.inputs) {
        if (id == kNoTensor || !reached[id]) continue;
        if (!node.op->gradient) throw InternalError(WithoutGradient(i, id));
        needed[id] = true;
      }
    }
  }

  std::string WithoutGradient(size_t node, TensorId input) const {
    const std::string& op = program_.nodes()[node].op->name;
    return "autodiff: '" + options_.loss + "' of program '" + program_.name() +
           "' depends on a trained parameter through " + Describe(program_, node) +
           ", which reads '" + program_.tensor(input).name + "', and " + op +
           " has no gradient; give it a rule, let it say that it stops gradients, or let it read a "
           "stop_gradient";
  }

  // The order in which nodes are differentiated: each after all nodes that read its results, from
  // the end to the start. If the loss is a sum of losses, the nodes that only the first loss reads
  // come first, then the nodes that only the second loss reads, and so on; then the nodes that
  // several losses read.
  std::vector<size_t> Order(Value loss) const {
    const std::vector<Node>& nodes = program_.nodes();
    const std::vector<size_t> terms = LossTerms(program_, loss);
    // Groups of the order: nodes that no term reads (the sum itself), one group for each term, and
    // nodes that several terms read.
    const size_t none = 0, several = terms.size() + 1;
    std::vector<size_t> read_by(program_.tensors().size(), none);
    std::vector<std::vector<size_t>> places(terms.size() + 2);
    const auto join = [&](size_t a, size_t b) {
      return a == none || a == b ? b : b == none ? a : several;
    };
    for (size_t n = nodes.size(); n-- > 0;) {
      const Node& node = nodes[n];
      const auto term = std::ranges::find(terms, n);
      size_t place = term == terms.end() ? none : static_cast<size_t>(term - terms.begin()) + 1;
      for (TensorId id : node.outputs) {
        if (id != kNoTensor) place = join(place, read_by[id]);
      }
      if (!node.op->gradient) continue;
      for (TensorId id : node.inputs) {
        if (id != kNoTensor) read_by[id] = join(read_by[id], place);
      }
      places[place].push_back(n);
    }
    std::vector<size_t> order;
    for (const std::vector<size_t>& place : places)
      std::ranges::copy(place, std::back_inserter(order));
    return order;
  }

  // The gradient of the loss with respect to itself.
  Value Seed(Value loss) {
    const DType dtype = builder_.dtype(loss);
    if (options_.loss_scale.empty()) {
      return builder_.Emit1("fill", {}, {{"dtype", std::string(Name(dtype))}, {"value", 1.0}},
                            options_.loss + ".seed");
    }
    const TensorType scalar{DType::kFloat32, {}};
    if (dtype != DType::kFloat32) {
      throw InternalError("autodiff: a scaled loss must be f32, '" + options_.loss + "' is " +
                          std::string(Name(dtype)));
    }
    return builder_.Persistent(options_.loss_scale, Role::kState, scalar);
  }

  bool IsParameter(TensorId id) const { return program_.tensor(id).role == Role::kParameter; }

  bool IsCarried(TensorId parameter) const {
    return options_.carry != Carry::kNone &&
           (!options_.carries || options_.carries(program_.tensor(parameter)));
  }

  // The carried tensor for a parameter's gradient.
  Value Carried(TensorId parameter) {
    const Tensor& tensor = program_.tensor(parameter);
    const TensorId found = program_.Find(GradientName(tensor));
    if (found != kNoTensor) return found;
    return builder_.Persistent(GradientName(tensor), Role::kGradient,
                               {ComputeType(tensor.type.dtype), tensor.type.shape},
                               Owner{tensor.name, OwnedAs::kGradient});
  }

  void StartFromCarried(size_t forward_nodes) {
    for (size_t i = 0; i < forward_nodes; ++i) {
      for (TensorId id : std::vector<TensorId>(program_.nodes()[i].inputs)) {
        if (id == kNoTensor || !IsParameter(id) || !depends_[id] || !IsCarried(id)) continue;
        if (Partial(id) == kNoTensor) SetPartial(id, Carried(id));
      }
    }
  }

  Value Partial(TensorId id) const {
    return static_cast<size_t>(id) < partials_.size() ? partials_[id] : kNoTensor;
  }
  void SetPartial(TensorId id, Value gradient) {
    if (static_cast<size_t>(id) >= partials_.size()) partials_.resize(id + 1, kNoTensor);
    partials_[id] = gradient;
  }

  void Differentiate(size_t index) {
    const Node node = program_.nodes()[index];
    if (!node.op->gradient) return;
    std::vector<Value> output_gradients;
    bool any = false;
    for (TensorId id : node.outputs) {
      output_gradients.push_back(id == kNoTensor || !depends_[id] ? kNoTensor : Partial(id));
      any = any || output_gradients.back() != kNoTensor;
    }
    if (!any) return;
    builder_.set_scope(node.scope);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      output_gradients[i] = AsExpected(node, i, output_gradients[i]);
    }

    std::vector<bool> wanted;
    std::vector<Value> partials;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId id = node.inputs[i];
      wanted.push_back(id != kNoTensor && depends_[id]);
      const bool seen =
          std::find(node.inputs.begin(), node.inputs.begin() + i, id) != node.inputs.begin() + i;
      partials.push_back(wanted.back() && !seen ? Partial(id) : kNoTensor);
    }

    const size_t first_emitted = program_.nodes().size();
    GradientContext context(builder_, node, std::move(output_gradients), wanted, partials);
    ApplyRule(node, index, context);

    for (size_t i = 0; i < node.inputs.size(); ++i) {
      Value gradient = context.input_gradient(i);
      const TensorId id = node.inputs[i];
      if (gradient == kNoTensor) {
        if (context.taken(i) && partials[i] != kNoTensor) {
          throw InternalError(node.op->name + ": its gradient rule lost a partial gradient");
        }
        // The first input of a view has its bytes; the other inputs of a view are only kept alive.
        if (wanted[i] && !(node.op->view && i > 0)) throw InternalError(WithoutRule(index, id));
        continue;
      }
      if (!wanted[i]) throw InternalError(node.op->name + ": gradient for an input not wanted");
      if (!MayBeGradientOf(builder_.type(gradient), builder_.type(id))) {
        throw InternalError(node.op->name + ": gradient of '" + program_.tensor(id).name +
                            "' has type " + builder_.type(gradient).ToString());
      }
      const Value before = Partial(id);
      const bool included = context.taken(i) && partials[i] == before;
      if (before != kNoTensor && !included) gradient = Add(before, gradient);
      if (IsParameter(id)) {
        gradient = Widened(gradient);
        gradient = OwnGradient(id, gradient, first_emitted);
      }
      SetPartial(id, gradient);
    }
  }

  std::string WithoutRule(size_t node, TensorId input) const {
    return "autodiff: '" + options_.loss + "' of program '" + program_.name() + "' depends on '" +
           program_.tensor(input).name + "', and with it on a trained parameter, but the rule of " +
           Describe(program_, node) + " gives it no gradient";
  }

  // The gradient of an output as the op's rule expects it: in the output's type. Rules that only
  // pass the gradient on get a float32 sum as it is, so that no sum for a weight is rounded to 16
  // bits.
  Value AsExpected(const Node& node, size_t output, Value gradient) {
    const bool hands_on = node.op->view || node.op->converts;
    if (gradient == kNoTensor || hands_on) return gradient;
    return InType(gradient, builder_.dtype(node.outputs[output]));
  }

  void ApplyRule(const Node& node, size_t index, GradientContext& context) {
    try {
      node.op->gradient(context);
    } catch (const InternalError& error) {
      throw InternalError("autodiff: gradient of " + Describe(program_, index) + ": " +
                          error.what());
    }
  }

  Value InType(Value value, DType dtype) {
    if (builder_.dtype(value) == dtype) return value;
    return builder_.Emit1("cast", {value}, {{"dtype", std::string(Name(dtype))}});
  }
  Value Widened(Value value) { return InType(value, ComputeType(builder_.dtype(value))); }

  // Adds two parts of one gradient, in float32 when either is float32.
  Value Add(Value a, Value b) {
    if (builder_.dtype(a) != builder_.dtype(b)) {
      a = Widened(a);
      b = Widened(b);
    }
    return builder_.Emit1("add", {a, b});
  }

  // Gives a parameter's gradient its own tensor: the carried one, or a temporary that no other
  // gradient shares. That tensor replaces the output just emitted.
  Value OwnGradient(TensorId parameter, Value gradient, size_t first_emitted) {
    auto written_here = [&] {
      for (size_t n = first_emitted; n < program_.nodes().size(); ++n) {
        const auto& outputs = program_.nodes()[n].outputs;
        if (std::find(outputs.begin(), outputs.end(), gradient) != outputs.end()) return true;
      }
      return false;
    };
    if (!written_here() || program_.tensor(gradient).alias) {
      gradient = builder_.Emit1("scale", {gradient}, {{"factor", 1.0}});
    }
    if (!IsCarried(parameter)) {
      program_.mutable_tensor(gradient).role = Role::kGradient;
      return gradient;
    }
    const Value carried = Carried(parameter);
    for (size_t n = first_emitted; n < program_.nodes().size(); ++n) {
      Node& node = program_.mutable_nodes()[n];
      std::replace(node.inputs.begin(), node.inputs.end(), gradient, carried);
      std::replace(node.outputs.begin(), node.outputs.end(), gradient, carried);
    }
    return carried;
  }

  int NameGradients() {
    int count = 0;
    for (size_t id = 0; id < program_.tensors().size(); ++id) {
      const TensorId parameter = static_cast<TensorId>(id);
      if (!IsParameter(parameter) || Partial(parameter) == kNoTensor) continue;
      ++count;
      const Tensor& tensor = program_.tensor(parameter);
      program_.Rename(Partial(parameter), GradientName(tensor));
      program_.mutable_tensor(Partial(parameter)).owner = {tensor.name, OwnedAs::kGradient};
    }
    return count;
  }

  // Makes the tensor `name` the sum over the micro-steps so far. The value of this micro-step alone
  // is renamed to MicroStepMetric.
  void CarryMetric(const std::string& name) {
    const Value here = program_.Require(name);
    const bool adds = options_.carry == Carry::kAccumulate;
    program_.mutable_tensor(here).role = adds ? Role::kActivation : Role::kMetric;
    program_.mutable_tensor(here).persistent = !adds;
    if (!adds) return;
    program_.Rename(here, MicroStepMetric(name));
    const std::optional<Merge> merge = std::exchange(program_.mutable_tensor(here).merge, {});
    const Value total = builder_.Persistent(name, Role::kMetric, builder_.type(here), {}, merge);
    builder_.set_scope("");
    builder_.EmitInto({total}, "add", {total, here});
  }

  // Whether the gradient's shape and type fit the value: equal, or float32 for low-precision
  // weights, because their gradients are sums in float32.
  static bool MayBeGradientOf(const TensorType& gradient, const TensorType& value) {
    return gradient.shape == value.shape &&
           (gradient.dtype == value.dtype || gradient.dtype == ComputeType(value.dtype));
  }

  Program& program_;
  const AutodiffOptions& options_;
  Builder builder_;
  std::vector<bool> depends_;
  std::vector<Value> partials_;  // by tensor: the sum of its gradients received so far
};

}  // namespace

std::vector<size_t> LossTerms(const Program& program, TensorId loss) {
  const std::vector<Node>& nodes = program.nodes();
  const auto is_number = [&](TensorId id) {
    return id == kNoTensor || program.tensor(id).type.shape.rank() == 0;
  };
  std::set<TensorId> summed = {program.Root(loss)};
  std::vector<size_t> terms;
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = nodes[n];
    const bool makes =
        node.phase == Phase::kForward && std::ranges::any_of(node.outputs, [&](TensorId id) {
          return id != kNoTensor && summed.contains(program.Root(id));
        });
    if (!makes || node.inputs.empty()) continue;
    if (!std::ranges::all_of(node.inputs, is_number)) {
      terms.push_back(n);
      continue;
    }
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) summed.insert(program.Root(id));
    }
  }
  std::ranges::reverse(terms);
  return terms;
}

std::string MicroStepMetric(std::string_view metric) { return std::string(metric) + ".micro"; }

PassResult Autodiff::Run(Program& program) {
  const size_t before = program.nodes().size();
  const int parameters = Reverse(program, options_).Run();
  return {true, Counted(program.nodes().size() - before, "node") + " added, gradients of " +
                    Counted(parameters, "parameter")};
}

}  // namespace plimsoll::graph
