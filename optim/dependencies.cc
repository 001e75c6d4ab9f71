#include "optim/dependencies.h"

#include <map>
#include <set>

namespace plimsoll::optim {

using graph::kNoTensor;
using graph::Node;
using graph::TensorId;

Dependencies DependenciesOf(const graph::Program& program) {
  struct Uses {
    std::vector<size_t> writers, readers;
  };
  std::map<TensorId, Uses> uses;  // by the tensor that owns the memory
  Dependencies dependencies;
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    const Node& node = program.nodes()[at];
    std::set<size_t> before;
    const auto wait_for = [&](const std::vector<size_t>& nodes) {
      before.insert(nodes.begin(), nodes.end());
    };
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) wait_for(uses[program.Root(id)].writers);
    }
    for (TensorId id : node.outputs) {
      if (id == kNoTensor) continue;
      wait_for(uses[program.Root(id)].writers);
      wait_for(uses[program.Root(id)].readers);
    }
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) uses[program.Root(id)].readers.push_back(at);
    }
    for (TensorId id : node.outputs) {
      if (id != kNoTensor) uses[program.Root(id)].writers.push_back(at);
    }
    dependencies.emplace_back(before.begin(), before.end());
  }
  return dependencies;
}

}  // namespace plimsoll::optim
