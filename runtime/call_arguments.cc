#include "runtime/call_arguments.h"

#include <algorithm>
#include <limits>

namespace plimsoll::runtime {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;
using graph::TensorType;

int32_t IdBound(const Program& program, const Node& node) {
  int64_t bound = std::numeric_limits<int32_t>::max();
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (TensorId id : *ids) {
      if (id == kNoTensor) continue;
      const TensorType& type = program.tensor(id).type;
      if (type.shape.rank() == 2 && graph::IsFloat(type.dtype)) {
        bound = std::min(bound, type.shape.dim(0));
      }
    }
  }
  return static_cast<int32_t>(bound == std::numeric_limits<int32_t>::max() ? 1 : bound);
}

bool HasPositions(const Node& node, size_t input) {
  return input < node.op->inputs.size() && node.op->inputs[input].name == "positions";
}

void FillPositions(int32_t* positions, const graph::Shape& shape) {
  for (int64_t i = 0; i < shape.elements(); ++i) {
    positions[i] = static_cast<int32_t>(i % shape.dim(-1));
  }
}

int InPlaceInput(const Program& program, const Node& node, int output) {
  for (const graph::InPlacePair& pair : node.op->in_place) {
    if (pair.output != output || pair.input >= static_cast<int>(node.inputs.size())) continue;
    const TensorId from = node.inputs[pair.input], to = node.outputs[output];
    if (from == kNoTensor || to == kNoTensor) continue;
    const bool same = program.Root(from) == program.Root(to);
    const bool equal = program.tensor(from).bytes() == program.tensor(to).bytes();
    if (same || (equal && node.phase != graph::Phase::kForward)) return pair.input;
  }
  return -1;
}

}  // namespace plimsoll::runtime
