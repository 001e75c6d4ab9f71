#include "graph/builder.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::graph {

Value Builder::Persistent(std::string name, Role role, TensorType type, std::optional<Owner> owner,
                          std::optional<Merge> merge) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.role = role;
  tensor.persistent = true;
  tensor.owner = std::move(owner);
  tensor.merge = merge;
  return program_.AddTensor(std::move(tensor));
}

Value Builder::Carried(const std::string& name, Role role, TensorType type,
                       std::optional<Owner> owner) {
  const Value found = program_.Find(name);
  return found != kNoTensor ? found : Persistent(name, role, std::move(type), std::move(owner));
}

Value Builder::Like(Value like, std::string_view stem, Value base) {
  Tensor tensor;
  tensor.name = program_.FreshName(stem);
  tensor.type = type(like);
  tensor.role = program_.tensor(like).role;
  if (base != kNoTensor) {
    tensor.place = program_.tensor(base).place;
    tensor.alias = Alias{base, 0};
  }
  return program_.AddTensor(std::move(tensor));
}

void Builder::set_context_of(const Node& node) {
  set_phase(node.phase);
  set_scope(node.scope);
  set_micro_step(node.micro_step);
}

Node Builder::NewNode(std::string_view op, std::vector<Value> inputs, Attributes attributes) const {
  Node node;
  node.op = &OpRegistry::Get().Require(op);
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  node.phase = phase_;
  node.micro_step = micro_step_;
  node.scope = scope_;
  node.made_by = made_by_;
  node.uncounted = uncounted_;
  return node;
}

std::vector<Value> Builder::Emit(std::string_view op_name, std::vector<Value> inputs,
                                 Attributes attributes, std::string_view name,
                                 std::vector<bool> want) {
  Node node = NewNode(op_name, std::move(inputs), std::move(attributes));
  const std::vector<TensorType> types = node.op->infer(program_.CallOf(node).get());
  const std::string stem = Qualified(name.empty() ? op_name : name);
  for (size_t i = 0; i < types.size(); ++i) {
    if (i < want.size() && !want[i]) {
      node.outputs.push_back(kNoTensor);
      continue;
    }
    Tensor tensor;
    tensor.name = program_.FreshName(i == 0 ? stem : stem + "." + node.op->outputs[i].name);
    tensor.type = types[i];
    if (node.op->view) {
      tensor.alias = Alias{node.inputs[0], 0};
      tensor.place = program_.tensor(node.inputs[0]).place;
    }
    node.outputs.push_back(program_.AddTensor(std::move(tensor)));
  }
  std::vector<Value> outputs = node.outputs;
  program_.mutable_nodes().push_back(std::move(node));
  return outputs;
}

void Builder::EmitInto(std::vector<Value> outputs, std::string_view op, std::vector<Value> inputs,
                       Attributes attributes) {
  Node node = NewNode(op, std::move(inputs), std::move(attributes));
  const std::vector<TensorType> types = node.op->infer(program_.CallOf(node).get());
  Check(types.size() == outputs.size(), program_.CallOf(node).get(), "another number of outputs");
  for (size_t i = 0; i < types.size(); ++i) {
    Check(outputs[i] == kNoTensor || types[i] == type(outputs[i]), program_.CallOf(node).get(),
          "output '" + node.op->outputs[i].name + "' written to a tensor of another type");
  }
  node.outputs = std::move(outputs);
  program_.mutable_nodes().push_back(std::move(node));
}

Value Builder::Emit1(std::string_view op, std::vector<Value> inputs, Attributes attributes,
                     std::string_view name) {
  return Emit(op, std::move(inputs), std::move(attributes), name).at(0);
}

int64_t Builder::NextKey() const {
  return std::ranges::count(program_.nodes(), false, &Node::uncounted);
}

std::string Builder::Qualified(std::string_view name) const {
  return scope_.empty() ? std::string(name) : scope_ + "." + std::string(name);
}

std::string Builder::NameWithin(Value v) const {
  const std::string& name = program_.tensor(v).name;
  const std::string prefix = scope_ + ".";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace plimsoll::graph
