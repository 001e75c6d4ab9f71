#include "parallel/tensor_gradients.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/axes.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/axis.h"
#include "ops/collectives/collective.h"
#include "parallel/split_norm.h"

namespace plimsoll::parallel {
namespace {

using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::TensorId;

bool StartsOnTensorAxis(const Node& node, std::string_view op) {
  return node.op->name == op && ops::AxisOf(node.attributes) == kTensorAxis;
}

// Whether each rank computes some heads in this node, although the node's parameters are of all
// heads.
bool IsOnHeads(const Node& node) {
  return node.op->sharding.follows == graph::ShardingRule::kHeads && node.attributes.Has("axis") &&
         ops::AxisOf(node.attributes) == kTensorAxis;
}

// The parameters whose gradient each rank computes only a part of. They are used on some of the
// rows (between a reduce_scatter and an all_gather), or on some of the heads.
std::set<TensorId> ParametersOfParts(const Program& program) {
  std::set<TensorId> rows;             // tensors of which each rank has some rows
  std::map<TensorId, TensorId> casts;  // maps the result of a cast to its source
  std::set<TensorId> found;
  for (const Node& node : std::span(program.nodes()).first(graph::ForwardEnd(program))) {
    if (node.op->converts) casts[node.outputs[0]] = graph::Substitute(casts, node.inputs[0]);
    bool on_rows = StartsOnTensorAxis(node, "reduce_scatter_start");
    const bool gathers = node.op->name.starts_with("all_gather");
    for (TensorId id : node.inputs) on_rows = on_rows || (!gathers && rows.contains(id));
    if (on_rows) {
      for (TensorId id : graph::Present(node.outputs)) rows.insert(id);
    }
    if (!on_rows && !IsOnHeads(node)) continue;
    for (TensorId id : graph::Present(node.inputs)) {
      const TensorId origin = graph::Substitute(casts, id);
      if (program.tensor(origin).role == Role::kParameter) found.insert(origin);
    }
  }
  return found;
}

class Completer {
 public:
  Completer(Program& program, const TensorParallelOptions& options)
      : program_(program), options_(options), builder_(program) {
    builder_.set_made_by("tensor_gradients");
  }

  graph::PassResult Run() {
    const std::set<TensorId> of_parts = ParametersOfParts(program_);
    for (const auto& [parameter, gradient] : graph::GradientsOf(program_)) {
      if (of_parts.contains(parameter)) partial_.push_back(gradient);
      if (options_.parts.contains(program_.tensor(parameter).name)) split_.insert(gradient);
    }
    const size_t update = graph::FirstUpdate(program_);
    if (update == program_.nodes().size()) return {false, "no update"};
    std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node& node = nodes[n];
      if (n == update) SumPartial();
      if (node.phase == Phase::kUpdate) {
        for (TensorId& id : node.inputs) id = graph::Substitute(sums_, id);
        if (node.op->name == "global_norm") {
          GatherSplitNorm(builder_, node, split_, kTensorAxis, options_.ranks);
        }
      }
      program_.mutable_nodes().push_back(std::move(node));
    }
    return {!sums_.empty() || !split_.empty(),
            fmt::format("{} summed, those of {} in one norm", Counted(sums_.size(), "gradient"),
                        Counted(split_.size(), "split parameter"))};
  }

 private:
  // Starts all sums one after another, so that the sums may be sent as one message.
  void SumPartial() {
    builder_.set_phase(Phase::kBackward);
    std::vector<TensorId> sums;
    for (const TensorId gradient : partial_) {
      const std::string name = program_.tensor(gradient).name + ".sum";
      sums.push_back(
          builder_.Emit1("all_reduce_start", {gradient}, ops::AlongAxis(kTensorAxis), name));
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::string name = program_.tensor(partial_[i]).name + ".summed";
      const TensorId done = builder_.Emit1("all_reduce_done", {sums[i]}, {}, name);
      for (TensorId id : {sums[i], done}) program_.mutable_tensor(id).role = Role::kGradient;
      program_.mutable_tensor(done).owner = program_.tensor(partial_[i]).owner;
      sums_[partial_[i]] = done;
    }
    builder_.set_phase(Phase::kUpdate);
  }

  Program& program_;
  const TensorParallelOptions& options_;
  graph::Builder builder_;
  std::vector<TensorId> partial_;      // gradients of which each rank has one addend
  std::set<TensorId> split_;           // gradients of which each rank has a shard
  std::map<TensorId, TensorId> sums_;  // maps a gradient in `partial_` to its sum
};

}  // namespace

graph::PassResult TensorGradients::Run(Program& program) {
  return Completer(program, options_).Run();
}

}  // namespace plimsoll::parallel
