#include "docs/examples/drop_unit_scales.h"

#include <map>

#include "base/amounts.h"

namespace plimsoll::graph {

PassResult DropUnitScales::Run(Program& program) {
  std::map<TensorId, TensorId> replaced;  // a scale's result by what it scaled
  std::vector<Node> kept;
  for (Node& node : program.mutable_nodes()) {
    for (TensorId& id : node.inputs) {
      if (const auto found = replaced.find(id); found != replaced.end()) id = found->second;
    }
    // A result that outlives the program has to be written.
    const bool drop = node.op->name == "scale" && node.attributes.GetReal("factor") == 1 &&
                      !program.tensor(program.Root(node.outputs[0])).persistent;
    if (drop) {
      replaced[node.outputs[0]] = node.inputs[0];
    } else {
      kept.push_back(std::move(node));
    }
  }
  program.mutable_nodes() = std::move(kept);
  program.DropUnusedTensors();
  return {!replaced.empty(), Counted(replaced.size(), "node") + " removed"};
}

}  // namespace plimsoll::graph
