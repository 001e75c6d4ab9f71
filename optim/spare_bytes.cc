#include "optim/spare_bytes.h"

#include <algorithm>

namespace plimsoll::optim {

using graph::kNoTensor;
using graph::Node;
using graph::TensorId;

std::vector<int64_t> SpareBytes(const graph::Program& program) {
  const std::vector<Node>& nodes = program.nodes();
  struct Life {
    size_t first = 0, last = 0;  // indices of nodes
  };
  std::vector<Life> lives(program.tensors().size(), Life{nodes.size(), 0});  // indexed by root
                                                                             // tensor
  for (size_t n = 0; n < nodes.size(); ++n) {
    const auto use = [&](TensorId id) {
      if (id == kNoTensor) return;
      const TensorId root = program.Root(id);
      const graph::Tensor& tensor = program.tensor(root);
      if (tensor.persistent || tensor.place == graph::Place::kHost) return;
      Life& life = lives[static_cast<size_t>(root)];
      life.first = std::min(life.first, n);
      life.last = n;
    };
    for (TensorId id : nodes[n].inputs) use(id);
    for (TensorId id : nodes[n].outputs) use(id);
    use(nodes[n].workspace);
  }
  std::vector<int64_t> changes(nodes.size() + 1, 0);
  for (size_t id = 0; id < lives.size(); ++id) {
    const Life& life = lives[id];
    if (life.first == nodes.size()) continue;
    const int64_t bytes = program.tensors()[id].bytes();
    changes[life.first] += bytes;
    changes[life.last + 1] -= bytes;
  }
  std::vector<int64_t> live(nodes.size(), 0);
  for (size_t n = 0; n < nodes.size(); ++n) live[n] = changes[n] + (n > 0 ? live[n - 1] : 0);
  const int64_t peak = live.empty() ? 0 : std::ranges::max(live);
  for (int64_t& bytes : live) bytes = peak - bytes;
  return live;
}

}  // namespace plimsoll::optim
