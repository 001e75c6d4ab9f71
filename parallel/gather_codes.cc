#include "parallel/gather_codes.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/bytes.h"
#include "graph/builder.h"
#include "graph/objective.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/axis.h"
#include "ops/collectives/collective.h"
#include "ops/data_movement/views.h"
#include "ops/linear/quantize_fusion.h"
#include "ops/reductions/largest_magnitude.h"

namespace plimsoll::parallel {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// The name of the carried tensor of largest magnitudes.
constexpr std::string_view kMagnitudes = "fp8_weights";

// A gathered weight.
struct GatheredWeight {
  TensorId part = kNoTensor, gathered = kNoTensor, whole = kNoTensor;
  std::vector<const Node*> quantized = {};  // nodes that make codes of the unsharded weight
  std::set<TensorId> largest = {};          // largest magnitudes of the unsharded weight
  bool codes_alone = true;                  // whether only nodes that make codes read the weight
};

class CodesGatherer {
 public:
  CodesGatherer(Program& program, const GatherCodes::Options& options)
      : program_(program), options_(options), g_(program) {
    g_.set_made_by("gather_codes");
  }

  graph::PassResult Run() {
    const std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    Find(nodes);
    if (weights_.empty()) {
      program_.mutable_nodes() = nodes;
      return {false, "no weight is read as 8-bit codes alone"};
    }
    FindMagnitudes();
    int64_t bytes = 0;
    for (GatheredWeight& weight : weights_) bytes += Retype(weight);
    for (const Node& node : nodes) Put(node);
    program_.DropUnusedTensors();
    return {true, fmt::format("codes of {} gathered, {}", Counted(weights_.size(), "weight"),
                              FormatBytes(bytes))};
  }

 private:
  // Weights in the order of their gathers, which is the same in all micro-steps.
  void Find(const std::vector<Node>& nodes) {
    std::map<TensorId, size_t> by_gathered;  // maps a gathered tensor to its index in weights_
    for (const Node& node : nodes) {
      const bool done = node.op->name == "all_gather_done";
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNoTensor) continue;
        read_.insert(node.inputs[i]);
        const auto found = by_gathered.find(program_.Root(node.inputs[i]));
        if (found == by_gathered.end()) continue;
        GatheredWeight& weight = weights_[found->second];
        if (done && i == 0) {
          weight.whole = node.outputs[0];
        } else if (i > 0 || node.inputs[0] != weight.whole || !Note(node, weight)) {
          weight.codes_alone = false;
        }
      }
      if (!ops::GathersParameter(program_, node)) continue;
      by_gathered[node.outputs[0]] = weights_.size();
      weights_.push_back({.part = node.inputs[0], .gathered = node.outputs[0]});
    }
    std::erase_if(weights_, [](const GatheredWeight& weight) {
      return !weight.codes_alone || weight.quantized.empty();
    });
    for (size_t i = 0; i < weights_.size(); ++i) {
      by_tensor_[weights_[i].gathered] = by_tensor_[weights_[i].whole] = i;
    }
  }

  // Whether this reader of the unsharded weight could use the rank's part or the codes instead.
  static bool Note(const Node& node, GatheredWeight& weight) {
    if (node.op->name == "largest_magnitude") {
      weight.largest.insert(node.outputs[0]);
      return true;
    }
    if (node.op->name == "count_codes") return true;
    if (node.op->name != "quantize") return false;
    const bool same = weight.quantized.empty() || weight.quantized.front()->attributes.GetWord(
                                                      "dtype") == node.attributes.GetWord("dtype");
    if (!same || !weight.largest.contains(node.inputs[ops::quantize::kLargest]) ||
        ops::ArgumentAt(node.inputs, ops::quantize::kExpected) != kNoTensor ||
        ops::ArgumentAt(node.outputs, ops::quantize::kSums) != kNoTensor) {
      return false;
    }
    weight.quantized.push_back(&node);
    return true;
  }

  // Finds the largest magnitudes of all weights, or takes the carried ones, and adds a view of
  // each. The magnitudes are in the order of the weights.
  void FindMagnitudes() {
    const auto count = static_cast<int64_t>(weights_.size());
    const std::string name = graph::OfObjective(options_.objective, kMagnitudes);
    TensorId all = g_.Persistent(name, graph::Role::kActivation, {DType::kFloat32, {count}});
    g_.set_scope(name);
    if (options_.first) {
      std::vector<TensorId> own;
      for (const GatheredWeight& weight : weights_) {
        own.push_back(ops::LargestMagnitude(g_, weight.part, NameOf(weight) + ".own"));
      }
      graph::Attributes attributes = ops::AlongAxis(kDataAxis);
      attributes.Set(ops::kReduction, std::string(ops::kMaximum));
      g_.EmitInto({all}, "stack", std::move(own));
      g_.EmitInto({all}, "all_reduce_start", {all}, std::move(attributes));
      all = g_.Emit1("all_reduce_done", {all}, {}, "all");
    }
    for (size_t i = 0; i < weights_.size(); ++i) {
      const TensorId magnitude =
          ops::Slice(g_, all, static_cast<int64_t>(i), {}, NameOf(weights_[i]));
      program_.mutable_tensor(magnitude).persistent = false;
      magnitudes_.push_back(magnitude);
      for (const TensorId id : weights_[i].largest) instead_[id] = magnitude;
    }
  }

  std::string NameOf(const GatheredWeight& weight) const {
    return program_.tensor(weight.part).name;
  }

  // Changes the type of the gathered tensor to that of codes. Returns its bytes.
  int64_t Retype(const GatheredWeight& weight) {
    const Node& first = *weight.quantized.front();
    const DType dtype = *graph::ParseDType(first.attributes.GetWord("dtype"));
    for (const TensorId id : {weight.gathered, weight.whole}) {
      program_.mutable_tensor(id).type.dtype = dtype;
    }
    TensorId scale = kNoTensor;  // one scale for all nodes that make codes
    for (const Node* node : weight.quantized) {
      if (node->outputs[ops::quantize::kCodes] != kNoTensor) {
        instead_[node->outputs[ops::quantize::kCodes]] = weight.whole;
      }
      const TensorId of_node = node->outputs[ops::quantize::kScale];
      if (of_node == kNoTensor) continue;
      if (scale == kNoTensor) {
        scale = of_node;
      } else {
        instead_[of_node] = scale;
      }
    }
    scales_.push_back(scale);
    return program_.tensor(weight.gathered).bytes();
  }

  void Put(Node node) {
    const auto found = by_tensor_.find(node.inputs.empty() ? kNoTensor : node.inputs[0]);
    if (ops::GathersParameter(program_, node) && by_tensor_.contains(node.outputs[0])) {
      node.inputs[0] = MakeCodes(node, by_tensor_.at(node.outputs[0]));
    } else if (found != by_tensor_.end()) {
      const GatheredWeight& weight = weights_[found->second];
      if (node.op->name == "largest_magnitude") return;
      if (node.op->name == "quantize") return Transpose(node, weight);
      if (node.op->name == "count_codes") {
        CountOwn(node, weight);
      } else {
        node.inputs[1] = codes_.at(weight.gathered);  // the end of the gather reads the rank's own
                                                      // codes
      }
    }
    for (TensorId& id : node.inputs) id = graph::Substitute(instead_, id);
    program_.mutable_nodes().push_back(std::move(node));
  }

  // Makes codes of the rank's own part, before the part's gather starts.
  TensorId MakeCodes(const Node& start, size_t index) {
    const GatheredWeight& weight = weights_[index];
    graph::Tensor codes;
    codes.name = program_.FreshName(NameOf(weight) + ".codes.own");
    codes.type = {program_.tensor(weight.gathered).type.dtype,
                  program_.tensor(weight.part).type.shape};
    codes.role = graph::Role::kParameter;
    const TensorId own = codes_[weight.gathered] = program_.AddTensor(std::move(codes));
    g_.set_context_of(start);
    g_.EmitInto({kNoTensor, own, scales_[index], kNoTensor}, "quantize",
                {weight.part, magnitudes_[index], kNoTensor}, weight.quantized.front()->attributes);
    return own;
  }

  void Transpose(const Node& node, const GatheredWeight& weight) {
    const TensorId transposed = node.outputs[ops::quantize::kTransposed];
    if (transposed == kNoTensor || !read_.contains(transposed)) return;
    g_.set_context_of(node);
    g_.EmitInto({transposed}, "transpose_codes", {weight.whole});
  }

  // Ranks counted the unsharded weight, and their counts are summed. Now each rank counts its part
  // only, with a weight larger by the number of ranks, so that the sum stays the same.
  void CountOwn(Node& node, const GatheredWeight& weight) const {
    const int64_t ranks = program_.tensor(weight.whole).type.shape.elements() /
                          program_.tensor(weight.part).type.shape.elements();
    node.inputs[0] = weight.part;
    node.attributes.Set("weight", node.attributes.GetReal("weight") * static_cast<double>(ranks));
  }

  Program& program_;
  const GatherCodes::Options& options_;
  graph::Builder g_;
  std::set<TensorId> read_;              // tensors that some node reads
  std::vector<GatheredWeight> weights_;  // weights that are gathered as codes
  std::vector<TensorId> magnitudes_;     // the largest magnitude of each of weights_
  std::vector<TensorId> scales_;         // the scale of the codes of each of weights_
  // maps a gathered or unsharded tensor to its index in weights_
  std::map<TensorId, size_t> by_tensor_;
  std::map<TensorId, TensorId> codes_;    // maps a gathered tensor to the rank's own codes
  std::map<TensorId, TensorId> instead_;  // maps a tensor to its substitute
};

}  // namespace

graph::PassResult GatherCodes::Run(Program& program) {
  return CodesGatherer(program, options_).Run();
}

}  // namespace plimsoll::parallel
