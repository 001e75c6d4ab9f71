#include "graph/verifier.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace plimsoll::graph {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), written_(program.tensors().size(), false) {}

  void Run() {
    for (size_t id = 0; id < program_.tensors().size(); ++id)
      CheckTensor(static_cast<TensorId>(id));
    for (at_ = 0; at_ < program_.nodes().size(); ++at_) CheckNode(program_.nodes()[at_]);
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const {
    throw InternalError(Describe(program_, at_) + ": " + message);
  }
  std::string Quoted(TensorId id) const { return "'" + program_.tensor(id).name + "'"; }
  bool Exists(TensorId id) const {
    return id >= 0 && static_cast<size_t>(id) < program_.tensors().size();
  }

  void CheckOwner(TensorId id, const Owner& owner) {
    const bool gradient = owner.as == OwnedAs::kGradient;
    if ((!program_.tensor(id).persistent && !gradient) || owner.name == program_.tensor(id).name) {
      throw InternalError("tensor " + Quoted(id) + " belongs to '" + owner.name +
                          "', but is not carried with it");
    }
    if (gradient) return;
    const auto [other, first] = owned_.try_emplace({owner.name, owner.as}, id);
    if (!first) {
      throw InternalError("tensors " + Quoted(other->second) + " and " + Quoted(id) +
                          " both belong to '" + owner.name + "' as " + std::string(Name(owner.as)));
    }
  }

  void CheckTensor(TensorId id) {
    const Tensor& tensor = program_.tensor(id);
    if (tensor.owner) CheckOwner(id, *tensor.owner);
    if (tensor.merge && !tensor.persistent) {
      throw InternalError("tensor " + Quoted(id) + " is merged, but is not carried");
    }
    if (tensor.merge && tensor.merge->ranks == OverRanks::kMax &&
        tensor.merge->micro_steps != OverMicroSteps::kMax) {
      throw InternalError("tensor " + Quoted(id) +
                          " is the maximum over ranks of what may be negative");
    }
    if (IsPending(tensor) && !tensor.merge) {
      throw InternalError("tensor " + Quoted(id) + " is pending for '" + tensor.owner->name +
                          "', but does not say how micro-steps and ranks make one value of it");
    }
    if (!tensor.alias) return;
    const Alias alias = *tensor.alias;
    if (!Exists(alias.base) || alias.base >= id) {
      throw InternalError("tensor " + Quoted(id) + " is an alias of nothing");
    }
    if (alias.byte_offset < 0 ||
        alias.byte_offset + tensor.bytes() > program_.tensor(alias.base).bytes()) {
      throw InternalError("tensor " + Quoted(id) + " reaches beyond " + Quoted(alias.base));
    }
    const int64_t whole = program_.tensor(alias.base).bytes();
    if (alias.own_part() &&
        (alias.byte_offset != 0 || whole % std::max<int64_t>(1, tensor.bytes()) != 0)) {
      throw InternalError("tensor " + Quoted(id) + " is no equal part of " + Quoted(alias.base));
    }
  }

  void CheckNode(const Node& node) {
    if (node.op == nullptr) Fail("no op");
    CheckCount("inputs", node.inputs.size(), node.op->inputs, node.op->variadic);
    CheckCount("outputs", node.outputs.size(), node.op->outputs, false);
    for (size_t i = 0; i < node.inputs.size(); ++i) CheckInput(node, i);
    if (node.workspace != kNoTensor && !Exists(node.workspace)) Fail("no such workspace");
    if (node.uncounted && node.op->random && node.attributes.Has("key")) {
      Fail("an uncounted node draws numbers: another node may have its key");
    }
    const Program::Call call = program_.CallOf(node);
    OpCall inferring = call.get();
    inferring.outputs = {};
    const std::vector<TensorType> types = node.op->infer(inferring);
    if (types.size() != node.outputs.size()) Fail("another number of outputs than inferred");
    for (size_t i = 0; i < node.outputs.size(); ++i) CheckOutput(node, i, types[i]);
  }

  void CheckCount(std::string_view what, size_t count, const std::vector<Argument>& arguments,
                  bool variadic) const {
    size_t required = arguments.size();
    while (required > 0 && arguments[required - 1].optional) --required;
    if (count < required || (count > arguments.size() && !variadic)) {
      Fail(std::to_string(count) + " " + std::string(what) + ", expected " +
           std::to_string(arguments.size()));
    }
  }

  void CheckInput(const Node& node, size_t i) const {
    const TensorId id = node.inputs[i];
    const Argument& argument = node.op->inputs[std::min(i, node.op->inputs.size() - 1)];
    if (id == kNoTensor) {
      if (!argument.optional) Fail("input '" + argument.name + "' is absent");
      return;
    }
    if (!Exists(id)) Fail("input '" + argument.name + "' does not exist");
    const TensorId root = program_.Root(id);
    if (!written_[id] && !written_[root] && !program_.tensor(root).persistent) {
      Fail("reads " + Quoted(id) + " before it is written");
    }
    const auto updated = updated_.find(root);
    if (node.phase != Phase::kUpdate && updated != updated_.end() &&
        updated->second == node.micro_step) {
      Fail("reads " + Quoted(id) + " after its update");
    }
  }

  void CheckOutput(const Node& node, size_t i, const TensorType& inferred) {
    const TensorId id = node.outputs[i];
    const Argument& argument = node.op->outputs[i];
    if (id == kNoTensor) {
      if (!argument.optional) Fail("output '" + argument.name + "' is absent");
      return;
    }
    if (!Exists(id)) Fail("output '" + argument.name + "' does not exist");
    const Tensor& tensor = program_.tensor(id);
    if (tensor.type != inferred) {
      Fail("output " + Quoted(id) + " is " + tensor.type.ToString() + ", the op gives " +
           inferred.ToString());
    }
    if (node.op->view) {
      if (!tensor.alias) Fail("view " + Quoted(id) + " is no alias");
    } else if (written_[id] && !tensor.persistent) {
      Fail("writes " + Quoted(id) + " a second time");
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] != id || node.op->view) continue;
      const bool allowed = std::any_of(
          node.op->in_place.begin(), node.op->in_place.end(), [&](const InPlacePair& pair) {
            return pair.input == static_cast<int>(k) && pair.output == static_cast<int>(i);
          });
      if (!allowed) Fail("writes its input " + Quoted(id) + ", which the op does not allow");
    }
    written_[id] = true;
    const TensorId root = program_.Root(id);
    if (node.phase == Phase::kUpdate && program_.tensor(root).role == Role::kParameter) {
      updated_[root] = node.micro_step;
    }
  }

  const Program& program_;
  std::vector<bool> written_;
  // Maps the tensor that owns a parameter's memory to the micro-step of the parameter's update.
  std::map<TensorId, int32_t> updated_;
  std::map<std::pair<std::string_view, OwnedAs>, TensorId>
      owned_;  // maps an owner's name and OwnedAs to the tensor
  size_t at_ = 0;
};

}  // namespace

void Verify(const Program& program) { Verifier(program).Run(); }

std::string Describe(const Program& program, size_t node) {
  const Node& n = program.nodes()[node];
  std::string text = "node " + std::to_string(node) + " (";
  text += n.op == nullptr ? "?" : n.op->name;
  if (!n.scope.empty()) text += " @" + n.scope;
  return text + ")";
}

}  // namespace plimsoll::graph
