#include "graph/dependencies.h"

#include "graph/tensor_ids.h"

namespace plimsoll::graph {

Dependencies DependenciesOf(const Program& program, Views views) {
  struct Accesses {
    std::vector<size_t> writers, readers;  // `readers`: nodes that have read since the last write,
                                           // which follows all earlier readers
  };
  std::vector<Accesses> accesses(program.tensors().size());  // indexed by the tensor that owns the
                                                             // memory
  const auto of = [&](TensorId id) -> Accesses& {
    return accesses[static_cast<size_t>(program.Root(id))];
  };
  Dependencies dependencies;
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    const Node& node = program.nodes()[at];
    const bool writes = !node.op->view || views == Views::kWrite;
    std::vector<size_t>& before = dependencies.emplace_back();
    const auto follow = [&](const std::vector<size_t>& nodes) {
      before.insert(before.end(), nodes.begin(), nodes.end());
    };
    for (TensorId id : Present(node.inputs)) follow(of(id).writers);
    for (TensorId id : Present(node.outputs)) {
      follow(of(id).writers);
      if (writes) follow(of(id).readers);
    }
    for (TensorId id : Present(node.inputs)) of(id).readers.push_back(at);
    for (TensorId id : Present(node.outputs)) {
      if (writes) of(id).readers.clear();
      of(id).writers.push_back(at);
    }
  }
  return dependencies;
}

}  // namespace plimsoll::graph
