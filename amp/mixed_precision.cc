#include "amp/mixed_precision.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll::amp {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;
using graph::TensorType;

// Whether the pass may change this type.
bool IsConvertible(const TensorType& type) {
  return type.shape.rank() > 0 &&
         (type.dtype == DType::kFloat32 || graph::IsLowPrecision(type.dtype));
}

// Scales an alias's offset, which is in bytes, to another type.
graph::Alias Rescaled(graph::Alias alias, DType from, DType to) {
  alias.byte_offset = alias.byte_offset / ByteSize(from) * ByteSize(to);
  return alias;
}

class Converter {
 public:
  Converter(Program& program, const AmpOptions& options) : program_(program), options_(options) {}

  graph::PassResult Run() {
    const std::set<std::string> float32 = options_.fp32_parameters
                                              ? *options_.fp32_parameters
                                              : Float32Parameters(program_, options_);
    for (size_t i = 0; i < program_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      if (program_.tensor(id).role == Role::kParameter) SetParameterType(id, float32);
    }
    const std::vector<Node> old = std::exchange(program_.mutable_nodes(), {});
    for (const Node& node : old) Convert(node);
    program_.mutable_nodes() = std::move(nodes_);
    return {changed_, Summary()};
  }

 private:
  void SetParameterType(TensorId id, const std::set<std::string>& float32) {
    const Tensor& parameter = program_.tensor(id);
    if (!IsConvertible(parameter.type)) return;
    const bool low = float32.count(parameter.name) == 0;
    ++(low ? low_parameters_ : float32_parameters_);
    if (low) SetType(id, options_.dtype);
  }

  void SetType(TensorId id, DType dtype) {
    Tensor& tensor = program_.mutable_tensor(id);
    if (tensor.type.dtype == dtype) return;
    if (tensor.alias) tensor.alias = Rescaled(*tensor.alias, tensor.type.dtype, dtype);
    tensor.type.dtype = dtype;
    changed_ = true;
  }

  void Convert(Node node) {
    if (node.phase != graph::Phase::kForward) {
      throw InternalError("amp: '" + node.op->name + "' is in phase " +
                          std::string(graph::Name(node.phase)) + "; the pass runs before autodiff");
    }
    const Precision precision = PrecisionOf(*node.op, options_);
    if (precision != Precision::kAsInput) {
      const DType dtype = precision == Precision::kFloat32 ? DType::kFloat32 : options_.dtype;
      ++(precision == Precision::kFloat32 ? float32_nodes_ : low_nodes_);
      const std::vector<int>& float32 = node.op->precision.float32_inputs;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        TensorId& input = node.inputs[i];
        const bool wide = std::ranges::find(float32, static_cast<int>(i)) != float32.end();
        if (input != kNoTensor) input = InType(input, wide ? DType::kFloat32 : dtype, node);
      }
    }
    SetOutputTypes(std::move(node));
  }

  // The tensor itself if it has type dtype, else its cast to dtype. The cast is emitted before the
  // first node that reads it.
  // it.
  TensorId InType(TensorId id, DType dtype, const Node& reader) {
    const TensorType& type = program_.tensor(id).type;
    if (!IsConvertible(type) || type.dtype == dtype) return id;
    const auto known = casts_.find({id, dtype});
    if (known != casts_.end()) return known->second;
    const TensorId cast = AddLike(id, dtype);
    EmitCast(id, cast, reader);
    casts_[{id, dtype}] = cast;
    return cast;
  }

  // Gives outputs the types that follow from the inputs. If an output tensor must keep its type,
  // the node writes a new tensor, and the output becomes a cast of it.
  void SetOutputTypes(Node node) {
    const std::vector<TensorType> types = node.op->infer(program_.CallOf(node).get());
    std::vector<std::pair<TensorId, TensorId>> stay;  // pairs: the new tensor, the output tensor
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorId id = node.outputs[i];
      if (id == kNoTensor) continue;
      Forget(id);
      if (program_.tensor(id).type.dtype == types[i].dtype) continue;
      if (!MustStay(id)) {
        SetType(id, types[i].dtype);
        continue;
      }
      node.outputs[i] = AddLike(id, types[i].dtype);
      if (node.op->view) {
        const graph::Alias alias = *std::exchange(program_.mutable_tensor(id).alias, std::nullopt);
        program_.mutable_tensor(node.outputs[i]).alias =
            Rescaled(alias, program_.tensor(id).type.dtype, types[i].dtype);
      }
      stay.emplace_back(node.outputs[i], id);
    }
    nodes_.push_back(node);
    for (const auto& [computed, id] : stay) {
      EmitCast(computed, id, node);
      RememberWidening(computed, id);
    }
    if (node.op->converts) RememberWidening(node.inputs[0], node.outputs[0]);
  }

  bool MustStay(TensorId id) const {
    const Tensor& tensor = program_.tensor(id);
    return tensor.persistent || std::find(options_.results.begin(), options_.results.end(),
                                          tensor.name) != options_.results.end();
  }

  // Remembers `wide` = cast(`low`): if a node reads `wide` in the low type, it gets `low`. The
  // reverse doesn't hold: a model's own narrowing is meant to round.
  void RememberWidening(TensorId low, TensorId wide) {
    if (program_.tensor(wide).type.dtype == DType::kFloat32) {
      casts_[{wide, program_.tensor(low).type.dtype}] = low;
    }
  }

  // Forgets the casts of a tensor (carried state) that is written again.
  void Forget(TensorId id) {
    for (DType dtype : {DType::kFloat32, options_.dtype}) casts_.erase({id, dtype});
  }

  // A new activation of the tensor's shape, named after the tensor and the type.
  TensorId AddLike(TensorId id, DType dtype) {
    Tensor tensor;
    tensor.name =
        program_.FreshName(program_.tensor(id).name + "." + std::string(graph::Name(dtype)));
    tensor.type = {dtype, program_.tensor(id).type.shape};
    return program_.AddTensor(std::move(tensor));
  }

  // Emits a cast in the scope of the node that needs it.
  void EmitCast(TensorId from, TensorId to, const Node& served) {
    Node cast;
    cast.op = &graph::OpRegistry::Get().Require("cast");
    cast.attributes = {{"dtype", std::string(graph::Name(program_.tensor(to).type.dtype))}};
    cast.inputs = {from};
    cast.outputs = {to};
    cast.phase = served.phase;
    cast.scope = served.scope;
    cast.made_by = "amp";
    nodes_.push_back(std::move(cast));
    ++added_casts_;
    changed_ = true;
  }

  std::string Summary() const {
    const std::string low(graph::Name(options_.dtype));
    return Counted(low_nodes_, "node") + " in " + low + ", " + std::to_string(float32_nodes_) +
           " in f32, " + Counted(added_casts_, "cast") + " added; " +
           Counted(low_parameters_, "parameter") + " in " + low + ", " +
           std::to_string(float32_parameters_) + " in f32";
  }

  Program& program_;
  const AmpOptions& options_;
  std::vector<Node> nodes_;                               // the program's new nodes
  std::map<std::pair<TensorId, DType>, TensorId> casts_;  // the cast of each tensor to each type
  int low_nodes_ = 0, float32_nodes_ = 0, added_casts_ = 0;
  int low_parameters_ = 0, float32_parameters_ = 0;
  bool changed_ = false;
};

graph::PassResult MarkTf32(Program& program, const AmpOptions& options) {
  int marked = 0;
  for (Node& node : program.mutable_nodes()) {
    if (!node.op->precision.tf32 || PrecisionOf(*node.op, options) != Precision::kLow) continue;
    node.attributes.Set("tf32", true);
    ++marked;
  }
  return {marked > 0, Counted(marked, "matrix product") + " in tf32"};
}

}  // namespace

graph::PassResult MixedPrecision::Run(Program& program) {
  if (!options_.enabled() && options_.tf32) return MarkTf32(program, options_);
  if (!options_.enabled()) return {false, "float32 throughout"};
  return Converter(program, options_).Run();
}

std::set<std::string> Float32Parameters(const Program& program, const AmpOptions& options) {
  std::set<std::string> names;
  for (const Node& node : program.nodes()) {
    const Precision precision = PrecisionOf(*node.op, options);
    if (node.op->view) continue;  // the readers of a view decide
    // The model's own casts start from float32.
    const bool low = precision == Precision::kLow || precision == Precision::kLowStorage;
    const std::vector<int>& wide = node.op->precision.float32_inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId id = node.inputs[i];
      if (id == kNoTensor) continue;
      if (low && std::ranges::find(wide, static_cast<int>(i)) == wide.end()) continue;
      const Tensor& tensor = program.tensor(program.Root(id));
      if (tensor.role == Role::kParameter) names.insert(tensor.name);
    }
  }
  return names;
}

}  // namespace plimsoll::amp
