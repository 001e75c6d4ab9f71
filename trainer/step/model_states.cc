#include "trainer/step/model_states.h"

#include <algorithm>

#include "ops/optimizer/model_state.h"

namespace plimsoll::trainer {

using graph::OverMicroSteps;
using graph::Value;

namespace {

// Makes the node that computes `next` write to `pending` directly, if nothing else reads `next`.
// Returns whether the node does so.
bool WriteInPlace(graph::Program& program, Value next, Value pending) {
  if (program.tensor(next).persistent || program.tensor(next).alias) return false;
  graph::Node* maker = nullptr;
  for (graph::Node& node : program.mutable_nodes()) {
    if (std::ranges::find(node.inputs, next) != node.inputs.end()) return false;
    const auto output = std::ranges::find(node.outputs, next);
    if (output == node.outputs.end()) continue;
    const auto index = static_cast<int>(output - node.outputs.begin());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool may_overwrite = std::ranges::any_of(node.op->in_place, [&](const auto& pair) {
        return pair.input == static_cast<int>(i) && pair.output == index;
      });
      if (node.inputs[i] == pending && !may_overwrite) return false;
    }
    maker = &node;
  }
  if (maker == nullptr) return false;
  std::ranges::replace(maker->outputs, next, pending);
  return true;
}

}  // namespace

void CarryStates(graph::Builder& g, std::span<const models::StateUpdate> updates,
                 graph::Carry carry) {
  graph::Program& program = g.program();
  for (const models::StateUpdate& update : updates) {
    const graph::Tensor& pending = program.tensor(update.pending);
    const OverMicroSteps over = pending.merge->micro_steps;
    const bool first = carry != graph::Carry::kAccumulate;
    Value next = update.next;
    if (first || over != OverMicroSteps::kLast) {
      const Value state = program.Require(pending.owner->name);
      for (graph::Node& node : program.mutable_nodes()) {
        std::ranges::replace(node.inputs, update.pending, state);
      }
      if (next == update.pending) next = state;
    }
    if (next == update.pending) continue;
    const bool as_it_is = over == OverMicroSteps::kLast || (first && over != OverMicroSteps::kMax);
    if (as_it_is && WriteInPlace(program, next, update.pending)) continue;
    ops::WritePending(g, update.pending, next, first);
  }
}

}  // namespace plimsoll::trainer
