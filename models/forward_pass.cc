#include "models/forward_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "graph/objective.h"

namespace plimsoll::models {

using graph::DType;
using graph::kNoTensor;
using graph::Role;
using graph::Shape;
using graph::Value;

Value Layers::Parameter(std::string_view name, Shape shape, Initializer init) {
  std::string full = builder_.Qualified(name);
  const bool first = builder_.program().Find(full) == kNoTensor;
  if (first) parameters_.push_back({full, shape, init});
  return Declared(std::move(full), Role::kParameter, {DType::kFloat32, shape});
}

Value Layers::State(StateInfo state) {
  state.name = builder_.Qualified(state.name);
  const Value value = Declared(state.name, Role::kState, {DType::kFloat32, state.shape});
  const auto known = std::ranges::find(states_, state.name, &StateInfo::name);
  if (known == states_.end()) {
    states_.push_back(std::move(state));
  } else if (*known != state) {
    throw InternalError("state '" + state.name +
                        "' is one thing at one use and another at another");
  }
  return value;
}

void Layers::DeclareSingular(Value parameter, Value u, Value v) {
  const graph::Program& program = builder_.program();
  if (program.tensor(parameter).role != Role::kParameter) {
    throw InternalError("a spectral norm of '" + program.tensor(parameter).name +
                        "', which is no parameter");
  }
  singular_states_.push_back(
      {program.tensor(parameter).name, program.tensor(u).name, program.tensor(v).name});
}

void Layers::UpdateState(Value state, FunctionRef<Value(Value)> next) {
  if (!training_) return;
  const std::string& name = builder_.program().tensor(state).name;
  const auto info = std::ranges::find(states_, name, &StateInfo::name);
  if (info == states_.end()) throw InternalError("'" + name + "' is updated, but is no state");
  const Value known = builder_.program().Find(graph::PendingName(name));
  auto update = std::ranges::find(state_updates_, known, &StateUpdate::pending);
  if (update == state_updates_.end()) {
    const Value pending =
        builder_.Persistent(graph::PendingName(info->name), Role::kPending, builder_.type(state),
                            graph::Owner{info->name, graph::OwnedAs::kPending}, info->merge);
    update = state_updates_.insert(update, {pending, pending});
  }
  const graph::TensorType type = builder_.type(state);
  update->next = next(update->next);
  if (builder_.type(update->next) != type) {
    throw InternalError("state '" + info->name + "' is " + type.ToString() + ", its update " +
                        builder_.type(update->next).ToString());
  }
}

void Layers::MoveUpdatesToEnd() {
  if (state_updates_.empty()) return;
  const graph::Program& program = builder_.program();
  // Memory that nodes at the end read (read_late), and memory that other nodes read (read_early).
  std::set<Value> read_late, read_early;
  for (const StateUpdate& update : state_updates_) read_late.insert(program.Root(update.next));
  std::vector<graph::Node> nodes = std::exchange(builder_.program().mutable_nodes(), {});
  std::vector<bool> late(nodes.size(), false);
  for (size_t i = nodes.size(); i-- > 0;) {
    bool needed_late = false, needed_early = false;
    for (const Value id : nodes[i].outputs) {
      if (id == kNoTensor) continue;
      needed_late = needed_late || read_late.contains(program.Root(id));
      needed_early = needed_early || read_early.contains(program.Root(id));
    }
    late[i] = needed_late && !needed_early;
    for (const Value id : nodes[i].inputs) {
      if (id != kNoTensor) (late[i] ? read_late : read_early).insert(program.Root(id));
    }
  }
  for (const bool behind : {false, true}) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (late[i] == behind) {
        builder_.program().mutable_nodes().push_back(std::move(nodes[i]));
      }
    }
  }
}

Value Layers::Declared(std::string name, Role role, const graph::TensorType& type) {
  const Value found = builder_.program().Find(name);
  if (found == kNoTensor) return builder_.Persistent(std::move(name), role, type);
  const graph::Tensor& tensor = builder_.program().tensor(found);
  if (tensor.role != role || tensor.type != type) {
    throw InternalError(fmt::format("'{}' is {} at one use and {} at another", name,
                                    tensor.type.ToString(), type.ToString()));
  }
  return found;
}

Value Layers::Input(std::string_view name, DType dtype, Shape shape) {
  return Declared(std::string(name), Role::kInput, {dtype, shape});
}

Value Layers::Tokens(std::string_view name) {
  return Input(name, DType::kInt32, {batch_.batch, batch_.sequence});
}

Value Layers::Rng() { return Input("rng", DType::kInt32, {2}); }

Value Layers::TokenWeight() {
  return Input(graph::OfObjective(objective_, "token_weight"), DType::kFloat32, {});
}

Value Layers::SampleWeight() {
  return Input(graph::OfObjective(objective_, "sample_weight"), DType::kFloat32, {});
}

}  // namespace plimsoll::models
