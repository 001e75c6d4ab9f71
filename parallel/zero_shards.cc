#include "parallel/zero_shards.h"

#include <map>

#include "base/axes.h"
#include "graph/companions.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/axis.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::parallel {

bool IsDivided(const graph::Shape& parameter, int64_t ranks) {
  return ranks > 1 && parameter.rank() >= 2 &&
         parameter.elements() % (ranks * ops::kStateBlock) == 0;
}

bool IsDividedWeight(const graph::Tensor& tensor, int64_t ranks) {
  return tensor.role == graph::Role::kParameter && !tensor.alias &&
         IsDivided(tensor.type.shape, ranks);
}

graph::Shape PartOf(const graph::Shape& whole, int64_t ranks) { return {whole.elements() / ranks}; }

std::map<std::string, graph::Shape> GatheredParameters(const graph::Program& program) {
  std::map<std::string, graph::Shape> found;
  std::map<graph::TensorId, graph::TensorId> copied;  // maps a copy, or codes, to the source tensor
  for (const graph::Node& node : program.nodes()) {
    if (node.op->transfer == graph::Transfer::kCopyStart) copied[node.outputs[0]] = node.inputs[0];
    if (graph::MakesParameter(program, node)) {
      for (const graph::TensorId id : graph::Present(node.outputs)) copied[id] = node.inputs[0];
    }
    if (node.op->name != "all_gather_start" || ops::AxisOf(node.attributes) != kDataAxis) continue;
    const graph::TensorId from = graph::Substitute(copied, program.Root(node.inputs[0]));
    const graph::Tensor& part = program.tensor(program.Root(from));
    if (part.role != graph::Role::kParameter) continue;
    found[part.name] = program.tensor(node.outputs[0]).type.shape;
  }
  return found;
}

}  // namespace plimsoll::parallel
