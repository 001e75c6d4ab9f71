#include "adapters/lora_pass.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "base/amounts.h"
#include "graph/builder.h"
#include "ops/elementwise/dropout.h"
#include "ops/linear/linear.h"
#include "ops/linear/low_rank.h"

namespace plimsoll::adapters {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::Value;

class Adapter {
 public:
  Adapter(Program& program, const Lora& lora, double dropout)
      : program_(program), lora_(lora), dropout_(dropout), builder_(program) {
    builder_.set_made_by("lora");
  }

  graph::PassResult Run() {
    for (const Layer& layer : lora_.layers) layers_[layer.WeightName()] = &layer;
    const std::vector<models::ParameterInfo> parameters = Parameters(lora_);
    for (const models::ParameterInfo& parameter : parameters)
      shapes_[parameter.name] = parameter.shape;

    // New nodes are first appended at the end, which gives them new keys, and then moved to their
    // places.
    const size_t count = program_.nodes().size();
    std::vector<size_t> ends(count, count);  // the end of the new nodes that follow node i
    int64_t elements = 0, adapted = 0;
    for (size_t i = 0; i < count; ++i) {
      ReadAdapted(program_.mutable_nodes()[i]);
      if (const Layer* const layer = LayerOf(program_.nodes()[i])) {
        Adapt(program_.nodes()[i], *layer);
        elements += shapes_.at(layer->AName()).elements() + shapes_.at(layer->BName()).elements();
        ++adapted;
      }
      ends[i] = program_.nodes().size();
    }
    std::vector<Node> nodes;
    for (size_t i = 0, next = count; i < count; ++i) {
      nodes.push_back(program_.nodes()[i]);
      for (; next < ends[i]; ++next) nodes.push_back(program_.nodes()[next]);
    }
    program_.mutable_nodes() = std::move(nodes);
    return {adapted > 0, fmt::format("rank {} next to {}, {} parameters", lora_.rank,
                                     Counted(adapted, "linear layer"), elements)};
  }

 private:
  const Layer* LayerOf(const Node& node) const {
    if (!node.op->takes_adapters) return nullptr;
    const auto found = layers_.find(program_.tensor(node.inputs[1]).name);
    return found == layers_.end() ? nullptr : found->second;
  }

  void ReadAdapted(Node& node) const {
    for (Value& input : node.inputs) {
      if (const auto found = adapted_.find(input); found != adapted_.end()) input = found->second;
    }
  }

  void Adapt(const Node node, const Layer& layer) {
    builder_.set_scope(node.scope);
    const Value y = node.outputs[0];
    const std::string name = program_.tensor(y).name;
    const std::string local = name.substr(node.scope.empty() ? 0 : node.scope.size() + 1);
    program_.Rename(y, name + ".base");
    Value x = node.inputs[0];
    if (dropout_ > 0) x = ops::Dropout(builder_, x, Rng(), dropout_, local + ".dropout");
    const Value u =
        ops::Linear(builder_, x, Parameter(layer.AName()), kNoTensor, local + ".low_rank");
    std::vector<ops::ColumnRange> columns;
    for (const Module& module : layer.modules) columns.push_back({module.first_row, module.rows});
    adapted_[y] =
        ops::AddLowRank(builder_, y, u, Parameter(layer.BName()), columns, lora_.scale(), local);
  }

  Value Parameter(const std::string& name) {
    return builder_.Persistent(name, Role::kParameter, {DType::kFloat32, shapes_.at(name)});
  }

  Value Rng() {
    const Value found = program_.Find("rng");
    if (found != kNoTensor) return found;
    return builder_.Persistent("rng", Role::kInput, {DType::kInt32, {2}});
  }

  Program& program_;
  const Lora& lora_;
  const double dropout_;
  graph::Builder builder_;
  std::map<std::string, const Layer*> layers_;  // by the weight's name
  std::map<std::string, graph::Shape> shapes_;  // shapes of A and B, by name
  std::map<Value, Value> adapted_;  // result of the adapted layer, by result of the frozen layer
};

}  // namespace

graph::PassResult LoraPass::Run(Program& program) {
  return Adapter(program, lora_, training_ ? lora_.dropout : 0).Run();
}

}  // namespace plimsoll::adapters
