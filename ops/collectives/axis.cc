#include "ops/collectives/axis.h"

#include "base/error.h"

namespace plimsoll::ops {

const std::string& AxisOf(const graph::Attributes& attributes) {
  return attributes.GetWord("axis");
}

Reduction ReductionOf(const graph::Attributes& attributes) {
  if (!attributes.Has(kReduction)) return Reduction::kSum;
  const std::string& word = attributes.GetWord(kReduction);
  if (word != kMaximum) throw InternalError("no reduction '" + word + "' of an all-reduce");
  return Reduction::kMax;
}

Communicator* CommunicatorFor(const graph::Attributes& attributes,
                              const AxisCommunicators& communicators) {
  if (communicators.empty() || !attributes.Has("axis")) return nullptr;
  const std::string& axis = AxisOf(attributes);
  if (!communicators.Has(axis)) throw InternalError("no axis '" + axis + "' of ranks");
  return communicators.Of(axis);
}

void CheckAxes(const graph::Program& program, const Mesh& mesh) {
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.alias || !tensor.alias->own_part() || mesh.Has(tensor.alias->part_along)) continue;
    throw InternalError("program '" + program.name() + "', '" + tensor.name + "': no axis '" +
                        tensor.alias->part_along + "' of ranks");
  }
  for (const graph::Node& node : program.nodes()) {
    if (!node.attributes.Has("axis") || mesh.Has(AxisOf(node.attributes))) continue;
    throw InternalError("program '" + program.name() + "', " + node.op->name + " in " + node.scope +
                        ": no axis '" + AxisOf(node.attributes) + "' of ranks");
  }
}

}  // namespace plimsoll::ops
