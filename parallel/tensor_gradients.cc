#include "parallel/tensor_gradients.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "ops/collectives/axis.h"
#include "parallel/split_norm.h"

namespace plimsoll::parallel {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::TensorId;

std::string SummedName(std::string_view parameter) {
  return graph::GradientName(parameter) + ".summed";
}

bool StartsOnTensorAxis(const Node& node, std::string_view op) {
  return node.op->name == op && ops::AxisOf(node.attributes) == kTensorAxis;
}

// The parameters used on some of the rows: between a reduce_scatter and an all_gather.
std::set<TensorId> ParametersOnRows(const Program& program) {
  std::set<TensorId> rows;                  // tensors of which each rank has some rows
  std::map<TensorId, TensorId> parameters;  // parameters and their casts
  std::set<TensorId> found;
  for (size_t i = 0; i < program.tensors().size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (program.tensor(id).role == Role::kParameter) parameters[id] = id;
  }
  for (const Node& node : std::span(program.nodes()).first(graph::ForwardEnd(program))) {
    if (node.op->converts && parameters.contains(node.inputs[0])) {
      parameters[node.outputs[0]] = parameters.at(node.inputs[0]);
    }
    bool on_rows = StartsOnTensorAxis(node, "reduce_scatter_start");
    const bool gathers = node.op->name.starts_with("all_gather");
    for (TensorId id : node.inputs) on_rows = on_rows || (!gathers && rows.contains(id));
    if (!on_rows) continue;
    for (TensorId id : node.outputs) {
      if (id != kNoTensor) rows.insert(id);
    }
    for (TensorId id : node.inputs) {
      if (parameters.contains(id)) found.insert(parameters.at(id));
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
    for (const TensorId parameter : ParametersOnRows(program_)) {
      const std::string& name = program_.tensor(parameter).name;
      if (program_.Find(graph::GradientName(name)) != kNoTensor) partial_.push_back(name);
    }
    for (const auto& [name, part] : options_.parts) {
      const TensorId gradient = program_.Find(graph::GradientName(name));
      if (gradient != kNoTensor) split_.insert(gradient);
    }
    const size_t update = graph::FirstUpdate(program_);
    if (update == program_.nodes().size()) return {false, "no update"};
    std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node& node = nodes[n];
      if (n == update) SumPartial();
      if (node.phase == Phase::kUpdate) {
        for (TensorId& id : node.inputs) {
          if (const auto sum = sums_.find(id); sum != sums_.end()) id = sum->second;
        }
        if (node.op->name == "global_norm") {
          GatherSplitNorm(builder_, node, split_, kTensorAxis, options_.ranks);
        }
      }
      program_.mutable_nodes().push_back(std::move(node));
    }
    return {!sums_.empty() || !split_.empty(),
            fmt::format("{} gradients summed, those of {} split parameters in one norm",
                        sums_.size(), split_.size())};
  }

 private:
  // Starts all sums together, so that they may be sent as one message.
  void SumPartial() {
    builder_.set_phase(Phase::kBackward);
    const std::string axis(kTensorAxis);
    std::vector<TensorId> sums;
    for (const std::string& parameter : partial_) {
      const TensorId gradient = program_.Find(graph::GradientName(parameter));
      sums.push_back(builder_.Emit1("all_reduce_start", {gradient}, {{"axis", axis}},
                                    graph::GradientName(parameter) + ".sum"));
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const TensorId done =
          builder_.Emit1("all_reduce_done", {sums[i]}, {}, SummedName(partial_[i]));
      for (TensorId id : {sums[i], done}) program_.mutable_tensor(id).role = Role::kGradient;
      sums_[program_.Find(graph::GradientName(partial_[i]))] = done;
    }
    builder_.set_phase(Phase::kUpdate);
  }

  Program& program_;
  const TensorParallelOptions& options_;
  graph::Builder builder_;
  std::vector<std::string> partial_;   // parameters whose gradients are parts of a sum
  std::set<TensorId> split_;           // gradients of which each rank has a part
  std::map<TensorId, TensorId> sums_;  // of partial gradients
};

}  // namespace

graph::PassResult TensorGradients::Run(Program& program) {
  return Completer(program, options_).Run();
}

TensorId FindCompleteGradient(const Program& program, std::string_view parameter) {
  const TensorId summed = program.Find(SummedName(parameter));
  return summed != kNoTensor ? summed : program.Find(graph::GradientName(parameter));
}

}  // namespace plimsoll::parallel
