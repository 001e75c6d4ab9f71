#include "graph/fingerprint.h"

#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace plimsoll::graph {
namespace {

class Hasher {
 public:
  template <typename T>
  void Add(const T& value) {
    hash_ = (hash_ ^ std::hash<T>()(value)) * size_t{0x9E3779B97F4A7C15};
    hash_ ^= hash_ >> 32;
  }
  void Add(const std::vector<TensorId>& ids) {
    Add(ids.size());
    for (TensorId id : ids) Add(id);
  }
  void Add(const Attributes& attributes) {
    Add(attributes.entries().size());
    for (const auto& [name, value] : attributes.entries()) {
      Add(name);
      Add(value.index());
      std::visit([this](const auto& held) { Add(held); }, value);
    }
  }
  void Add(const Tensor& tensor) {
    Add(tensor.name);
    Add(tensor.type.dtype);
    Add(tensor.type.shape.rank());
    for (int64_t dim : tensor.type.shape.dims()) Add(dim);
    Add(tensor.role);
    Add(tensor.place);
    Add(tensor.persistent);
    Add(tensor.retention);
    Add(tensor.alias.has_value());
    if (!tensor.alias) return;
    Add(tensor.alias->base);
    Add(tensor.alias->byte_offset);
    Add(tensor.alias->part_along);
  }
  void Add(const Node& node) {
    Add(node.op);
    Add(node.attributes);
    Add(node.inputs);
    Add(node.outputs);
    Add(node.workspace);
    Add(node.phase);
    Add(node.micro_step);
    Add(node.scope);
    Add(node.made_by);
  }
  size_t hash() const { return hash_; }

 private:
  size_t hash_ = 0;
};

}  // namespace

size_t Fingerprint(const Program& program) {
  Hasher hasher;
  for (const Tensor& tensor : program.tensors()) hasher.Add(tensor);
  for (const Node& node : program.nodes()) hasher.Add(node);
  return hasher.hash();
}

}  // namespace plimsoll::graph
