#include "optim/spare_bytes.h"

#include <algorithm>
#include <map>

namespace plimsoll::optim {

using graph::kNoTensor;
using graph::Node;
using graph::TensorId;

std::vector<int64_t> SpareBytes(const graph::Program& program) {
  struct Life {
    size_t first = 0, last = 0;  // nodes
  };
  std::map<TensorId, Life> lives;
  const std::vector<Node>& nodes = program.nodes();
  for (size_t n = 0; n < nodes.size(); ++n) {
    const auto use = [&](TensorId id) {
      if (id == kNoTensor) return;
      const TensorId root = program.Root(id);
      const graph::Tensor& tensor = program.tensor(root);
      if (tensor.persistent || tensor.place == graph::Place::kHost) return;
      lives.try_emplace(root, Life{n, n}).first->second.last = n;
    };
    for (TensorId id : nodes[n].inputs) use(id);
    for (TensorId id : nodes[n].outputs) use(id);
    use(nodes[n].workspace);
  }
  std::vector<int64_t> changes(nodes.size() + 1, 0);
  for (const auto& [root, life] : lives) {
    changes[life.first] += program.tensor(root).bytes();
    changes[life.last + 1] -= program.tensor(root).bytes();
  }
  std::vector<int64_t> live(nodes.size(), 0);
  for (size_t n = 0; n < nodes.size(); ++n) live[n] = changes[n] + (n > 0 ? live[n - 1] : 0);
  const int64_t peak = live.empty() ? 0 : std::ranges::max(live);
  for (int64_t& bytes : live) bytes = peak - bytes;
  return live;
}

}  // namespace plimsoll::optim
