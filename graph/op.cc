#include "graph/op.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::graph {
namespace {

std::string ArgumentName(const std::vector<Argument>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i].name : "#" + std::to_string(i);
}

}  // namespace

const TensorType& OpCall::input(size_t i) const {
  if (has_input(i)) return *inputs[i];
  throw InternalError(op.name + ": no input '" + ArgumentName(op.inputs, i) + "'");
}

const TensorType& OpCall::output(size_t i) const {
  if (has_output(i)) return *outputs[i];
  throw InternalError(op.name + ": no output '" + ArgumentName(op.outputs, i) + "'");
}

Cost CostOf(const OpCall& call) {
  if (call.op.cost) return call.op.cost(call);
  Cost cost;
  if (call.op.view) return cost;
  for (const TensorType* type : call.inputs) cost.bytes += type != nullptr ? type->bytes() : 0;
  for (const TensorType* type : call.outputs) cost.bytes += type != nullptr ? type->bytes() : 0;
  return cost;
}

void Check(bool condition, const OpCall& call, std::string_view message) {
  if (condition) return;
  std::string text = call.op.name + ": " + std::string(message) + " (inputs";
  for (const TensorType* type : call.inputs) text += type ? " " + type->ToString() : " none";
  throw InternalError(text + ")");
}

OpRegistry& OpRegistry::Get() {
  static OpRegistry registry;
  return registry;
}

void OpRegistry::Add(OpDef def) {
  if (Find(def.name) != nullptr) throw InternalError("op '" + def.name + "' announced twice");
  if (!def.infer) throw InternalError("op '" + def.name + "' lacks infer");
  auto at = std::lower_bound(ops_.begin(), ops_.end(), def.name,
                             [](const auto& op, const std::string& n) { return op->name < n; });
  ops_.insert(at, std::make_unique<const OpDef>(std::move(def)));
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  auto at = std::lower_bound(ops_.begin(), ops_.end(), name,
                             [](const auto& op, std::string_view n) { return op->name < n; });
  return at != ops_.end() && (*at)->name == name ? at->get() : nullptr;
}

const OpDef& OpRegistry::Require(std::string_view name) const {
  const OpDef* op = Find(name);
  if (op == nullptr) throw InternalError("no op '" + std::string(name) + "'");
  return *op;
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<const OpDef*> all;
  for (const auto& op : ops_) all.push_back(op.get());
  return all;
}

}  // namespace plimsoll::graph
