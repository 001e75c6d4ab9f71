#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "graph/step_passes.h"
#include "graph/step_shape.h"

namespace plimsoll::graph {
namespace {

class GradientReleaser {
 public:
  explicit GradientReleaser(Program& program)
      : program_(program), update_begin_(UpdateTail(program)) {
    for (const Tensor& tensor : program.tensors()) {
      gradients_.push_back(
          {.released = tensor.role == Role::kGradient && tensor.persistent && !tensor.alias});
    }
    for (const Tensor& tensor : program.tensors()) {
      if (tensor.alias && tensor.persistent) gradients_[program.Root(tensor.alias->base)] = {};
    }
    for (size_t at = 0; at < program.nodes().size(); ++at) Look(at);
  }

  PassResult Run() {
    int count = 0;
    for (size_t id = 0; id < gradients_.size(); ++id) {
      if (!gradients_[id].released || gradients_[id].writers.empty()) continue;
      Release(static_cast<TensorId>(id));
      ++count;
    }
    // Nodes write temporaries on the device, although carried gradients may live on the host.
    for (size_t i = 0; i < program_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      const Tensor& root = program_.tensor(program_.Root(id));
      if (root.persistent || root.role != Role::kGradient) continue;
      program_.mutable_tensor(id).place = Place::kDevice;
    }
    return {count > 0, Counted(count, "gradient") +
                           (count == 1 ? " is a temporary now" : " are temporaries now")};
  }

 private:
  // A carried gradient, and the nodes that write it.
  struct Gradient {
    bool released = false;
    bool seen_through_view = false;
    std::vector<size_t> writers = {};
  };

  // Keeps a gradient persistent if the node requires that: the node reads the gradient before the
  // gradient is written; it writes the gradient although a view of it has been used; or it belongs
  // to the update and reads the gradient from the host.
  void Look(size_t at) {
    const Node& node = program_.nodes()[at];
    for (TensorId id : node.inputs) {
      if (id == kNoTensor) continue;
      Gradient& gradient = gradients_[program_.Root(id)];
      const bool waits =
          at >= update_begin_ && program_.tensor(program_.Root(id)).place == Place::kHost;
      if (gradient.writers.empty() || waits) gradient.released = false;
      if (program_.Root(id) != id) gradient.seen_through_view = true;
    }
    for (TensorId id : node.outputs) {
      if (id == kNoTensor) continue;
      Gradient& gradient = gradients_[program_.Root(id)];
      if (program_.Root(id) != id) {
        gradient.seen_through_view = true;
      } else if (gradient.released) {
        gradient.writers.push_back(at);
        if (gradient.seen_through_view) gradient.released = false;
      }
    }
  }

  // The last sum keeps the original tensor, so that views of it stay valid.
  void Release(TensorId gradient) {
    program_.mutable_tensor(gradient).persistent = false;
    const std::vector<size_t>& writers = gradients_[gradient].writers;
    for (size_t i = 0; i + 1 < writers.size(); ++i) {
      Tensor sum = program_.tensor(gradient);
      sum.name = program_.FreshName(sum.name + ".sum");
      sum.owner = {};
      const TensorId next = program_.AddTensor(std::move(sum));
      std::vector<TensorId>& outputs = program_.mutable_nodes()[writers[i]].outputs;
      std::ranges::replace(outputs, gradient, next);
      // All readers of this sum, including the next writer, read the new tensor.
      for (size_t at = writers[i] + 1; at <= writers[i + 1]; ++at) {
        std::ranges::replace(program_.mutable_nodes()[at].inputs, gradient, next);
      }
    }
  }

  Program& program_;
  std::vector<Gradient>
      gradients_;            // by tensor: the gradient that it is, if it is a carried gradient
  size_t update_begin_ = 0;  // from this node on, all nodes belong to the update
};

}  // namespace

PassResult TemporaryGradients::Run(Program& program) { return GradientReleaser(program).Run(); }

}  // namespace plimsoll::graph
