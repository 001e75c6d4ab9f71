#include "amp/fp8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/crc32c.h"
#include "base/glob.h"
#include "graph/block.h"
#include "graph/builder.h"
#include "graph/objective.h"
#include "ops/collectives/axis.h"
#include "ops/collectives/collective.h"
#include "ops/linear/quantize.h"
#include "ops/linear/quantize_activation.h"
#include "ops/linear/scaled_linear.h"
#include "ops/optimizer/model_state.h"
#include "ops/reductions/largest_magnitude.h"

namespace plimsoll::amp {
namespace {

using graph::Attributes;
using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// The attribute that marks a layer and its gradients. Its value is the type of gradients' codes.
constexpr const char* kMark = "fp8";

// The state that holds the largest magnitudes of earlier steps.
constexpr std::string_view kLargest = "fp8_largest";

std::string Word(DType dtype) { return std::string(graph::Name(dtype)); }

TensorId InputOf(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoTensor;
}

class Quantizer {
 public:
  Quantizer(Program& program, const Fp8Products::Options& options)
      : program_(program),
        options_(options),
        state_(graph::OfObjective(options.objective, kLargest)),
        g_(program) {
    g_.set_made_by("fp8_products");
  }

  graph::PassResult Run() {
    const std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    if (options_.codes.pre_activations) FindPreActivations(nodes);
    if (options_.codes.window > 0) FindDelayed(nodes);
    for (const Node& node : nodes) {
      g_.set_scope(node.scope);
      g_.set_phase(node.phase);
      if (!Takes(node)) {
        program_.mutable_nodes().push_back(OfNumbers(node));
      } else if (node.op->name == "linear") {
        Forward(node);
        KeepPreActivation(node.outputs[0]);
      } else if (node.op->name == "linear_dx") {
        InputGradient(node);
      } else {
        WeightGradient(node);
      }
    }
    if (products_ == 0) {
      return graph::Refused(
          "no linear layer has 8-bit products; the line '8-bit products' says why");
    }
    if (!delayed_.empty()) CarryLargest();
    if (counts_ != kNoTensor) FinishCounts();
    program_.DropUnusedTensors();
    const std::string kept =
        kept_.empty() ? "" : fmt::format(", {} in 8 bits", Counted(kept_.size(), "pre-activation"));
    return {true, fmt::format("{} of 8-bit codes{}", Counted(products_, "product"), kept)};
  }

 private:
  // The codes of a tensor: `straight` in the tensor's own layout, and `transposed`.
  struct Codes {
    TensorId transposed, straight, scale;
  };

  bool Takes(const Node& node) const { return node.attributes.Has(kMark) && Legal(node); }

  // Whether scaled_linear takes the layer's shapes. Each of a layer's three products sums over the
  // layer's inputs, its outputs, or its rows, which are padded.
  bool Legal(const Node& node) const {
    const graph::Shape& first = program_.tensor(node.inputs[0]).type.shape;
    const graph::Shape& second = program_.tensor(node.inputs[1]).type.shape;
    const int64_t one = first.dim(-1);
    const int64_t other = second.dim(node.op->name == "linear" ? 0 : -1);
    return ops::WhyNotScaled({first.rows(), one, other}).empty();
  }

  // The tensor's codes. They are computed before the first node of a phase that reads them.
  Codes CodesOf(TensorId tensor, DType dtype, TensorId acc_sums = kNoTensor,
                TensorId sums = kNoTensor) {
    const auto known = codes_.find({tensor, g_.phase()});
    if (known != codes_.end()) return known->second;
    return codes_[{tensor, g_.phase()}] = Quantize(tensor, dtype, acc_sums, sums);
  }

  Codes Quantize(TensorId tensor, DType dtype, TensorId acc_sums, TensorId sums) {
    const TensorId largest = LargestOf(tensor);
    // The name and the shape are copied, since adding tensors moves `tensor`.
    const std::string stem = program_.tensor(tensor).name;
    const graph::Shape shape = program_.tensor(tensor).type.shape;
    const graph::Shape transposed = {shape.dim(-1), ops::TransposedRow(shape.rows())};
    const Codes codes{Add(stem + ".codes_t", {dtype, transposed}),
                      Add(stem + ".codes", {dtype, shape}),
                      Add(stem + ".scale", {DType::kFloat32, {}})};
    Attributes attributes = {{"dtype", Word(dtype)}};
    std::vector<TensorId> inputs = {tensor, largest, acc_sums};
    if (const auto found = std::ranges::find(delayed_, tensor); found != delayed_.end()) {
      inputs.push_back(expected_);
      attributes.Set("index", static_cast<int64_t>(found - delayed_.begin()));
    }
    g_.EmitInto({codes.transposed, codes.straight, codes.scale, sums}, "quantize",
                std::move(inputs), attributes);
    if (options_.codes.counts) Count(tensor, codes.scale, dtype);
    return codes;
  }

  // Counts the tensor's values by code, once, when the tensor is first quantized.
  void Count(TensorId tensor, TensorId scale, DType dtype) {
    if (!counted_.insert(tensor).second) return;
    const graph::Uncounted uncounted(g_);
    values_ += program_.tensor(tensor).type.shape.elements();
    std::vector<TensorId> inputs = {tensor, scale};
    if (counts_ == kNoTensor) {
      counts_ = g_.Persistent(graph::OfObjective(options_.objective, Fp8Products::kCounts),
                              graph::Role::kMetric, {DType::kFloat32, {3}}, {}, graph::kSummed);
      if (options_.carry == graph::Carry::kAccumulate) inputs.push_back(counts_);
    } else {
      inputs.push_back(counts_);
    }
    g_.EmitInto({counts_}, "count_codes", std::move(inputs),
                {{"dtype", Word(dtype)}, {"weight", 0.0}});
  }

  // Turns the counts into shares of all values of a step.
  void FinishCounts() {
    const graph::Uncounted uncounted(g_);
    const double all = static_cast<double>(values_) * static_cast<double>(options_.parts);
    for (Node& node : program_.mutable_nodes()) {
      if (node.op->name == "count_codes") node.attributes.Set("weight", 1 / all);
    }
    g_.set_scope("");
    g_.set_phase(graph::Phase::kBackward);
    ReduceOverTensorRanks(counts_, /*largest=*/false);
  }

  // Finds the tensors whose scales come from earlier steps: activations and gradients. Weights need
  // no delayed scales: finding a weight's largest magnitude costs little, once per update.
  void FindDelayed(const std::vector<Node>& nodes) {
    uint32_t names = 0;
    const auto add = [&](TensorId quantized, const std::string& name) {
      if (std::ranges::find(delayed_, quantized) != delayed_.end()) return;
      delayed_.push_back(quantized);
      names = Crc32c(name + "\n", names);
    };
    for (const Node& node : nodes) {
      if (!Takes(node)) continue;
      const bool of_weight = node.op->name == "linear_dw";
      if (of_weight && node.outputs[0] == kNoTensor) continue;
      const std::string layer = LayerOf(node, nodes);
      add(node.inputs[of_weight ? 1 : 0],
          layer + (node.op->name == "linear" ? " input" : " gradient"));
      if (kept_.contains(node.outputs[0])) add(node.outputs[0], layer + " result");
    }
    if (delayed_.empty()) return;
    const auto count = static_cast<int64_t>(delayed_.size());
    expected_ = g_.Persistent(state_, graph::Role::kState, {DType::kFloat32, {count}});
    const TensorId history = g_.Persistent(state_ + ".history", graph::Role::kState,
                                           {DType::kFloat32, {options_.codes.window, count}},
                                           graph::Owner{state_, graph::OwnedAs::kHistory});
    program_.mutable_tensor(history).names_crc = names;
  }

  // The name of the weight of the layer that `node`, one of its three products, belongs to. Unlike
  // an activation's name, the weight's name doesn't depend on how ranks share the layer. If several
  // weights of one shape read the same input, a weight gradient may get the name of the first of
  // them.
  std::string LayerOf(const Node& node, const std::vector<Node>& nodes) const {
    const auto weight_of = [&](const Node& product) -> const graph::Tensor& {
      return program_.tensor(program_.Root(product.inputs[1]));
    };
    if (node.op->name != "linear_dw") return weight_of(node).name;
    const int64_t outputs = program_.tensor(node.inputs[1]).type.shape.dim(-1);
    const auto forward = std::ranges::find_if(nodes, [&](const Node& other) {
      return other.op->name == "linear" && Takes(other) && other.inputs[0] == node.inputs[0] &&
             program_.tensor(other.inputs[1]).type.shape.dim(0) == outputs;
    });
    return forward == nodes.end() ? node.scope : weight_of(*forward).name;
  }

  // Finds the results that are saved for the backward pass and that only activation functions read.
  void FindPreActivations(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (node.op->name == "linear" && Takes(node)) kept_[node.outputs[0]] = {};
    }
    std::set<TensorId> wait;
    for (const Node& node : nodes) {
      const bool activation = ops::IsQuantizedActivation(node.op->name);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNoTensor) continue;
        if (!activation || i > 0) kept_.erase(program_.Root(node.inputs[i]));
        if (node.phase == graph::Phase::kBackward) wait.insert(node.inputs[i]);
      }
    }
    std::erase_if(kept_, [&](const auto& of) {
      const graph::Tensor& result = program_.tensor(of.first);
      return result.persistent || result.role != graph::Role::kActivation ||
             !wait.contains(of.first);
    });
  }

  void KeepPreActivation(TensorId result) {
    const auto found = kept_.find(result);
    if (found != kept_.end()) found->second = CodesOf(result, DType::kFloat8E4M3);
  }

  // The node as given; if its first input is saved as codes, it reads the dequantized codes
  // instead.
  Node OfNumbers(Node node) {
    if (node.inputs.empty()) return node;
    const auto found = kept_.find(node.inputs[0]);
    if (found == kept_.end()) return node;
    const auto [numbers, fresh] = numbers_.try_emplace({node.inputs[0], g_.phase()}, kNoTensor);
    if (fresh) {
      const graph::Tensor& result = program_.tensor(node.inputs[0]);
      const std::string name = result.name + ".numbers";
      numbers->second = g_.Emit1("dequantize", {found->second.straight, found->second.scale},
                                 {{"dtype", Word(result.type.dtype)}});
      program_.Rename(numbers->second, program_.FreshName(name));
    }
    node.inputs[0] = numbers->second;
    return node;
  }

  // Writes the step's largest magnitudes to the pending state, at the end of the backward pass.
  void CarryLargest() {
    const graph::TensorType type = program_.tensor(expected_).type;
    const TensorId pending =
        g_.Persistent(graph::PendingName(state_), graph::Role::kPending, type,
                      graph::Owner{state_, graph::OwnedAs::kPending},
                      graph::Merge{graph::OverMicroSteps::kMax, graph::OverRanks::kMax});
    g_.set_scope(state_);
    g_.set_phase(graph::Phase::kBackward);
    std::vector<TensorId> largest;
    for (const TensorId tensor : delayed_) largest.push_back(largest_.at(tensor));
    const TensorId found = g_.Emit1("stack", largest, {}, "found");
    ops::WritePending(g_, pending, found, options_.carry != graph::Carry::kAccumulate);
    ReduceOverTensorRanks(pending, /*largest=*/true);
  }

  // Gives all tensor-parallel ranks the maximum (if `largest`) or the sum of their values, once a
  // step.
  void ReduceOverTensorRanks(TensorId carried, bool largest) {
    if (!options_.update || options_.tensor_ranks == 1) return;
    Attributes attributes = ops::AlongAxis(kTensorAxis);
    if (largest) attributes.Set(ops::kReduction, std::string(ops::kMaximum));
    g_.EmitInto({carried}, "all_reduce_start", {carried}, attributes);
    g_.Emit1("all_reduce_done", {carried}, {}, "reduced");
  }

  // The tensor's largest magnitude. It is found before the first codes of any phase.
  TensorId LargestOf(TensorId tensor) {
    const auto [known, fresh] = largest_.try_emplace(tensor, kNoTensor);
    if (fresh) {
      known->second = ops::LargestMagnitude(g_, tensor);
      program_.Rename(known->second, program_.FreshName(program_.tensor(tensor).name + ".largest"));
    }
    return known->second;
  }

  TensorId Add(const std::string& name, graph::TensorType type) {
    graph::Tensor tensor;
    tensor.name = program_.FreshName(name);
    tensor.type = type;
    return program_.AddTensor(std::move(tensor));
  }

  // y = x · weightᵀ + bias.
  void Forward(const Node& node) {
    const Codes x = CodesOf(node.inputs[0], DType::kFloat8E4M3);
    codes_of_x_[node.inputs[0]] = x;
    const Codes weight = CodesOf(node.inputs[1], DType::kFloat8E4M3);
    Attributes attributes = {{"dtype", Word(program_.tensor(node.outputs[0]).type.dtype)},
                             {"fast", true}};
    if (node.attributes.Has("axis")) attributes.Set("axis", node.attributes.GetWord("axis"));
    Emit(node.outputs[0], {x.straight, weight.straight, x.scale, weight.scale, InputOf(node, 2)},
         attributes);
  }

  // dx = dy · weight + acc.
  void InputGradient(const Node& node) {
    const Codes dy = CodesOf(node.inputs[0], GradientType(node));
    const Codes weight = CodesOf(node.inputs[1], DType::kFloat8E4M3);
    Emit(node.outputs[0],
         {dy.straight, weight.transposed, dy.scale, weight.scale, kNoTensor, InputOf(node, 2)},
         {{"dtype", Word(program_.tensor(node.outputs[0]).type.dtype)}});
  }

  // dweight = dyᵀ · x + acc; dbias = the sums of dy's columns + acc.
  void WeightGradient(const Node& node) {
    const TensorId x = node.inputs[0], gradient = node.inputs[1];
    const TensorId dweight = node.outputs[0];
    TensorId dbias = node.outputs.size() > 1 ? node.outputs[1] : kNoTensor;
    if (dweight == kNoTensor || (dbias != kNoTensor && codes_.contains({gradient, g_.phase()}))) {
      // Only the bias has a gradient: no product is needed.
      Node sums = node;
      sums.outputs[0] = kNoTensor;
      sums.inputs.resize(4, kNoTensor);
      sums.inputs[2] = kNoTensor;
      program_.mutable_nodes().push_back(std::move(sums));
      dbias = kNoTensor;
    }
    if (dweight == kNoTensor) return;
    const Codes dy = CodesOf(gradient, GradientType(node),
                             dbias != kNoTensor ? InputOf(node, 3) : kNoTensor, dbias);
    const Codes& of_x = codes_of_x_.at(x);
    Attributes attributes = {{"dtype", Word(program_.tensor(dweight).type.dtype)}};
    if (node.attributes.Has("low_gradient")) {
      attributes.Set("low_gradient", true);
      attributes.Set("key", node.attributes.GetInt("key"));
    }
    Emit(dweight,
         {dy.transposed, of_x.transposed, dy.scale, of_x.scale, kNoTensor, InputOf(node, 2),
          InputOf(node, 4)},
         attributes);
  }

  static DType GradientType(const Node& node) {
    return *graph::ParseDType(node.attributes.GetWord(kMark));
  }

  void Emit(TensorId result, std::vector<TensorId> inputs, Attributes attributes) {
    g_.EmitInto({result}, "scaled_linear", std::move(inputs), std::move(attributes));
    ++products_;
  }

  Program& program_;
  const Fp8Products::Options& options_;
  const std::string state_;  // the name of the state; used only with a window
  graph::Builder g_;
  std::map<std::pair<TensorId, graph::Phase>, Codes> codes_;  // by tensor and reader's phase
  std::map<TensorId, Codes> codes_of_x_;  // codes of inputs, made in the forward pass
  std::map<TensorId, Codes> kept_;        // codes of pre-activations
  // Dequantized pre-activations, by tensor and reader's phase.
  std::map<std::pair<TensorId, graph::Phase>, TensorId> numbers_;
  std::map<TensorId, TensorId> largest_;  // the largest magnitude of each tensor
  std::vector<TensorId> delayed_;         // tensors whose scales come from earlier steps
  TensorId expected_ = kNoTensor;         // the state, with one element for each tensor of delayed_
  TensorId counts_ = kNoTensor;           // the counts of codes, for the metric kCounts
  std::set<TensorId> counted_;            // tensors that count_codes reads
  int64_t values_ = 0;                    // the number of elements of the tensors in counted_
  int products_ = 0;
};

}  // namespace

bool IsAtAnEnd(const graph::Blocks& blocks, int block, int64_t ends) {
  return block < ends || block >= blocks.count() - ends;
}

graph::PassResult MarkFp8::Run(Program& program) {
  int marked = 0, all = 0;
  const graph::Blocks blocks(program);
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    Node& node = program.mutable_nodes()[n];
    if (node.op->name != "linear") continue;
    ++all;
    const graph::Tensor& weight = program.tensor(program.Root(node.inputs[1]));
    const int block = blocks.Of(n);
    if (block == graph::kNoBlock || IsAtAnEnd(blocks, block, options_.fp8.skip_ends) ||
        weight.role != graph::Role::kParameter ||
        !graph::IsLowPrecision(program.tensor(node.inputs[0]).type.dtype) ||
        MatchesAnyGlob(options_.fp8.skip, weight.name)) {
      continue;
    }
    node.attributes.Set(kMark, Word(options_.fp8.gradients));
    ++marked;
  }
  return {marked > 0, fmt::format("{} of {}", marked, Counted(all, "linear layer"))};
}

graph::PassResult Fp8Products::Run(Program& program) { return Quantizer(program, options_).Run(); }

}  // namespace plimsoll::amp
