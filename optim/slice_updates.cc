#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "graph/block.h"
#include "graph/builder.h"
#include "graph/tensor_ids.h"
#include "ops/data_movement/views.h"
#include "ops/optimizer/optimizer.h"
#include "optim/host_parameters.h"
#include "optim/update_units.h"

namespace plimsoll::optim {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::TensorId;

class Slicer {
 public:
  explicit Slicer(Program& program)
      : program_(program), units_(program), blocks_(program), users_(CountUsers()) {
    for (size_t n = 0; n < program.nodes().size(); ++n) {
      if (units_.Of(n) == kNoUnit || blocks_.Of(n) == graph::kNoBlock) continue;
      largest_ = std::max(largest_, HostBytes(program.nodes()[n]));
    }
  }

  int Run() {
    int sliced = 0;
    std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    program_.mutable_nodes().reserve(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      const int64_t pieces = PiecesOf(nodes[n], n);
      if (pieces > 1) {
        Emit(nodes[n], pieces);
        ++sliced;
      } else {
        program_.mutable_nodes().push_back(std::move(nodes[n]));
      }
    }
    return sliced;
  }

 private:
  std::vector<int> CountUsers() const {
    std::vector<int> users(program_.tensors().size(), 0);
    for (const Node& node : program_.nodes()) {
      if (node.phase != graph::Phase::kUpdate || node.op->view) continue;
      for (TensorId id : graph::Present(node.inputs)) {
        ++users[static_cast<size_t>(program_.Root(id))];
      }
    }
    return users;
  }

  // The bytes of tensors that are placed on the host and that the node changes.
  int64_t HostBytes(const Node& node) const {
    int64_t bytes = 0;
    for (TensorId id : graph::Present(node.outputs)) {
      if (program_.tensor(id).place == Place::kHost) bytes += program_.tensor(id).bytes();
    }
    return bytes;
  }

  int64_t PiecesOf(const Node& node, size_t n) const {
    if (units_.Of(n) == kNoUnit || blocks_.Of(n) != graph::kNoBlock || largest_ == 0) return 1;
    const bool updates = node.op->name == "adamw" || node.op->name == "sgd";
    const bool whole = std::ranges::any_of(graph::Present(node.outputs), [&](TensorId id) {
      return program_.tensor(id).alias.has_value() || users_[static_cast<size_t>(id)] > 1;
    });
    const int64_t bytes = HostBytes(node);
    if (!updates || whole || bytes <= largest_) return 1;
    return (4 * bytes + largest_ - 1) / largest_;
  }

  void Emit(const Node& node, int64_t pieces) {
    const int64_t elements = program_.tensor(node.outputs[0]).type.shape.elements();
    const int64_t blocks = ops::ScalesShape({elements}).elements();
    const int64_t step = (blocks + pieces - 1) / pieces * ops::kStateBlock;
    for (int64_t first = 0; first < elements; first += step) {
      const int64_t count = std::min(step, elements - first);
      Node part = node;
      for (TensorId& id : part.inputs) {
        const TensorId whole = id;
        id = SliceOf(whole, node, elements, first, count);
        std::ranges::replace(part.outputs, whole, id);
      }
      if (first > 0) part.attributes.Set("first_element", first);
      program_.mutable_nodes().push_back(std::move(part));
    }
  }

  // The slice of a tensor that has the parameter's length, or of such a tensor's scales; for any
  // other tensor, the tensor itself.
  TensorId SliceOf(TensorId id, const Node& node, int64_t elements, int64_t first, int64_t count) {
    if (id == kNoTensor) return id;
    const graph::Tensor& tensor = program_.tensor(id);
    const int64_t own = tensor.type.shape.elements();
    const auto scales = [](int64_t n) { return ops::ScalesShape({n}).elements(); };
    const bool scalar = own == 1 || tensor.role == graph::Role::kInput;
    if (scalar || (own != elements && own != scales(elements))) return id;
    graph::Builder g(program_);
    g.set_phase(node.phase);
    g.set_micro_step(node.micro_step);
    g.set_made_by("slice_updates");
    const std::string name = tensor.name + ".slice";
    return own == elements ? ops::Slice(g, id, first, {count}, name)
                           : ops::Slice(g, id, scales(first), {scales(count)}, name);
  }

  Program& program_;
  const UpdateUnits units_;
  const graph::Blocks blocks_;
  const std::vector<int> users_;  // by root tensor: the number of update nodes that read it
  int64_t largest_ = 0;           // bytes of the largest update of a block
};

}  // namespace

graph::PassResult SliceUpdates::Run(Program& program) {
  const int sliced = Slicer(program).Run();
  return {sliced > 0, fmt::format("the updates of {} are sliced", Counted(sliced, "parameter"))};
}

}  // namespace plimsoll::optim
