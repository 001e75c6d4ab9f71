#include "parallel/parts.h"

#include "base/axes.h"
#include "ops/axis.h"
#include "ops/definition.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::parallel {

bool IsDivided(const graph::Shape& parameter, int64_t ranks) {
  return ranks > 1 && parameter.rank() >= 2 &&
         parameter.elements() % (ranks * ops::kStateBlock) == 0;
}

graph::Shape PartOf(const graph::Shape& whole, int64_t ranks) { return {whole.elements() / ranks}; }

graph::Attributes OverDataRanks() { return {{"axis", std::string(kDataAxis)}}; }

graph::Attributes OverDataRanks(const graph::Shape& result) {
  graph::Attributes attributes = OverDataRanks();
  ops::SetShape(attributes, result);
  return attributes;
}

std::map<std::string, graph::Shape> GatheredParameters(const graph::Program& program) {
  std::map<std::string, graph::Shape> found;
  for (const graph::Node& node : program.nodes()) {
    if (node.op->name != "all_gather_start" || ops::AxisOf(node.attributes) != kDataAxis) continue;
    const graph::Tensor& part = program.tensor(program.Root(node.inputs[0]));
    if (part.role != graph::Role::kParameter) continue;
    found[part.name] = program.tensor(node.outputs[0]).type.shape;
  }
  return found;
}

}  // namespace plimsoll::parallel
