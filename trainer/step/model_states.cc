#include "trainer/step/model_states.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::trainer {

using graph::Value;

void CarryStates(graph::Builder& g, std::span<const models::StateUpdate> updates,
                 graph::Carry carry) {
  graph::Program& program = g.program();
  for (const models::StateUpdate& update : updates) {
    const bool adds = carry == graph::Carry::kAccumulate &&
                      update.state.over_micro_steps == models::StateInfo::kMean;
    Value next = update.next;
    if (carry != graph::Carry::kAccumulate || adds) {
      const Value state = program.Require(update.state.name);
      for (graph::Node& node : program.mutable_nodes()) {
        std::ranges::replace(node.inputs, update.pending, state);
      }
      if (next == update.pending) next = state;
    }
    if (next == update.pending) continue;
    if (adds) {
      g.EmitInto({update.pending}, "add_to_state", {update.pending, next});
      continue;
    }
    g.EmitInto({update.pending}, "cast", {next},
               {{"dtype", std::string(graph::Name(graph::DType::kFloat32))}});
  }
}

}  // namespace plimsoll::trainer
