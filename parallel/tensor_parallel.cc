// B batch, T sequence, D width, R tensor-parallel ranks.
#include "parallel/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "ops/linear/low_rank.h"

namespace plimsoll::parallel {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::Shape;
using graph::ShardingRule;
using graph::Tensor;
using graph::TensorId;
using graph::TensorType;

// How a result is distributed over the ranks.
enum class Layout {
  kWhole,    // all ranks have the same, unsharded tensor
  kColumns,  // each rank has a part of the last dimension: heads, feed-forward columns, tokens
  kRows,     // each rank has B·T/R rows of [B·T,D], in the order of ranks
};

class Splitter {
 public:
  Splitter(Program& program, const TensorParallelOptions& options)
      : program_(program), options_(options), builder_(program) {
    builder_.set_made_by("tensor_parallel");
  }

  graph::PassResult Run() {
    int split = 0;
    for (const TensorId id : graph::TensorIds(program_)) {
      if (program_.tensor(id).role != Role::kParameter) continue;
      parameters_.insert(id);
      const auto part = options_.parts.find(program_.tensor(id).name);
      if (part == options_.parts.end()) continue;
      program_.mutable_tensor(id).type.shape = part->second.shape;
      splits_[id] = part->second.split;
      ++split;
    }
    const std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    for (const Node& node : nodes) Convert(node);
    return {split > 0,
            fmt::format("{} shared by {} ranks, {} among them", Counted(split, "parameter"),
                        options_.ranks, Counted(sums_, "sum"))};
  }

 private:
  void Convert(Node node) {
    builder_.set_scope(node.scope);
    for (TensorId& id : node.inputs) id = graph::Substitute(sums_of_, id);
    if (node.op->converts && parameters_.contains(node.inputs[0])) {
      parameters_.insert(node.outputs[0]);
    }
    if (node.op->converts && splits_.contains(node.inputs[0])) {
      splits_[node.outputs[0]] = splits_.at(node.inputs[0]);
      return Emit(node, Layout::kWhole);
    }
    const ShardingRule& rule = node.op->sharding;
    if (rule.split_weight != ShardingRule::kRefused && SplitOf(node, Weight(node))) {
      return UseSplitWeight(std::move(node));
    }
    switch (rule.follows) {
      case ShardingRule::kNothing:
        break;
      case ShardingRule::kRows:
      case ShardingRule::kElements:
        return Follow(std::move(node));
      case ShardingRule::kHeads:
        return Heads(std::move(node));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) Require(node, i, Layout::kWhole);
    Emit(std::move(node), Layout::kWhole);
  }

  void UseSplitWeight(Node node) {
    switch (node.op->sharding.split_weight) {
      case ShardingRule::kRefused:
        break;
      case ShardingRule::kProduct:
        return Product(std::move(node));
      case ShardingRule::kLowRank:
        return LowRank(std::move(node));
      case ShardingRule::kLookup:
        return Lookup(std::move(node));
      case ShardingRule::kReduction:
        return Reduction(std::move(node));
    }
  }

  void Product(Node node) {
    const size_t weight = Weight(node), bias = weight + 1;
    if (*SplitOf(node, weight) != ParameterPart::kColumns) {
      if (HasInput(node, bias) && !SplitOf(node, bias)) Fail(node, "has a bias that is not split");
      node.inputs[0] = Whole(node.inputs[0]);
      return Emit(std::move(node), Layout::kColumns);
    }
    Require(node, 0, Layout::kColumns);
    if (HasInput(node, bias)) SetAxis(node);  // with the axis, only one rank adds the bias
    EmitPart(std::move(node));
  }

  // Splits a low-rank product: each rank has its part of every range of columns.
  void LowRank(Node node) {
    Require(node, 0, Layout::kColumns);
    node.inputs[1] = Whole(node.inputs[1]);
    std::vector<ops::ColumnRange> ranges = ops::ColumnRanges(node.attributes);
    for (ops::ColumnRange& range : ranges) {
      range.first /= options_.ranks;
      range.columns /= options_.ranks;
    }
    node.attributes.Set("columns", ops::ColumnsWord(ranges));
    Emit(std::move(node), Layout::kColumns);
  }

  // Splits a lookup, which gives zeros for tokens of other ranks.
  void Lookup(Node node) {
    SetAxis(node);
    EmitPart(std::move(node));
  }

  // Handles an op that computes a result from each rank's shard and itself sums the results over
  // the ranks.
  void Reduction(Node node) {
    node.inputs[0] = Whole(node.inputs[0]);
    SetAxis(node);
    Emit(std::move(node), Layout::kWhole);
  }

  void Heads(Node node) {
    const Layout layout = LayoutOf(node.inputs[0]);
    if (layout == Layout::kRows) Fail(node, "needs all tokens");
    if (layout == Layout::kColumns) {
      for (const char* heads : {"heads", "kv_heads"}) {
        node.attributes.Set(heads, node.attributes.GetInt(heads) / options_.ranks);
      }
      // The axis is set if the node's parameters, such as qk_norm's, apply to all heads: the ranks'
      // gradients of such parameters are addends of a sum (tensor_gradients.h).
      if (Draws(node) || ReadsParameters(node)) SetAxis(node);
    }
    Emit(std::move(node), layout);
  }

  void Follow(Node node) {
    const Layout layout = LayoutOf(node.inputs[0]);
    const ShardingRule& rule = node.op->sharding;
    for (int i = 0; i < rule.inputs; ++i) Require(node, static_cast<size_t>(i), layout);
    if (layout == Layout::kColumns && rule.follows == ShardingRule::kRows) {
      Fail(node, "needs whole rows");
    }
    if (layout != Layout::kWhole && Draws(node)) {
      SetAxis(node);
      if (layout == Layout::kColumns) node.attributes.Set("columns", true);
    }
    Emit(std::move(node), layout);
  }

  // Appends the node and sets its outputs' types, which follow from its inputs.
  void Emit(Node node, Layout layout) {
    const TensorId out = node.outputs[0];
    const bool keeps = program_.tensor(out).persistent && layout != Layout::kWhole;
    if (keeps) node.outputs[0] = AddPartOf(out);
    const std::vector<TensorType> types = node.op->infer(program_.CallOf(node).get());
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoTensor) continue;
      program_.mutable_tensor(node.outputs[i]).type = types[i];
      layouts_[node.outputs[i]] = layout;
    }
    const TensorId part = node.outputs[0];
    program_.mutable_nodes().push_back(std::move(node));
    if (keeps) Assemble(part, layout, out);
  }

  // Makes the unsharded tensor, for a tensor that outlives the program.
  void Assemble(TensorId part, Layout layout, TensorId whole) {
    if (layout != Layout::kColumns) {
      throw InternalError("tensor_parallel: '" + program_.tensor(whole).name +
                          "' outlives the program, but each rank has some rows of it");
    }
    builder_.EmitInto({whole}, "place_columns", {part},
                      {{"axis", std::string(kTensorAxis)}, {"ranks", options_.ranks}});
    builder_.EmitInto({whole}, "all_reduce_start", {whole}, ops::AlongAxis(kTensorAxis));
    builder_.Emit1("all_reduce_done", {whole}, {}, builder_.NameWithin(whole) + ".sum");
    ++sums_;
  }

  // Appends a node whose results are one addend per rank, and their sum: Megatron's g.
  void EmitPart(Node node) {
    const TensorId part = node.outputs[0];
    Emit(std::move(node), Layout::kWhole);
    const Shape& shape = builder_.shape(part);
    const std::string name = builder_.NameWithin(part) + ".sum";
    TensorId sum;
    if (options_.sequence) {
      batch_ = shape.DropLast();
      if (shape.rows() % options_.ranks != 0) {
        throw InternalError(fmt::format("tensor_parallel: {} rows of '{}' among {} ranks",
                                        shape.rows(), program_.tensor(part).name, options_.ranks));
      }
      sum = ops::ReduceScatter(builder_, part, kTensorAxis,
                               {shape.rows() / options_.ranks, shape.dim(-1)}, name);
      layouts_[sum] = Layout::kRows;
    } else {
      sum = ops::AllReduce(builder_, part, kTensorAxis, name);
    }
    sums_of_[part] = sum;
    ++sums_;
  }

  // The unsharded tensor that a split layer reads. Each rank computes one addend of its gradient:
  // Megatron's f.
  TensorId Whole(TensorId x) {
    const auto known = wholes_.find(x);
    if (known != wholes_.end()) return known->second;
    const std::string name = builder_.NameWithin(x) + ".whole";
    TensorId whole = kNoTensor;
    switch (LayoutOf(x)) {
      case Layout::kWhole:
        whole = ops::SumGradient(builder_, x, kTensorAxis, name);
        break;
      case Layout::kRows: {
        std::vector<int64_t> dims(batch_.dims().begin(), batch_.dims().end());
        dims.push_back(builder_.shape(x).dim(-1));
        whole = ops::AllGather(builder_, x, kTensorAxis, Shape(dims), name);
        break;
      }
      case Layout::kColumns:
        throw InternalError("tensor_parallel: '" + program_.tensor(x).name +
                            "' is split already where a split layer reads it");
    }
    wholes_[x] = whole;
    return whole;
  }

  static bool HasInput(const Node& node, size_t i) {
    return i < node.inputs.size() && node.inputs[i] != kNoTensor;
  }

  std::optional<ParameterPart::Split> SplitOf(const Node& node, size_t input) const {
    if (!HasInput(node, input)) return std::nullopt;
    const auto found = splits_.find(node.inputs[input]);
    if (found == splits_.end()) return std::nullopt;
    return found->second;
  }

  Layout LayoutOf(TensorId id) const {
    const auto found = layouts_.find(id);
    return found == layouts_.end() ? Layout::kWhole : found->second;
  }

  void Require(const Node& node, size_t input, Layout layout) const {
    if (!HasInput(node, input)) return;
    const TensorId id = node.inputs[input];
    if (LayoutOf(id) == layout && !splits_.contains(id)) return;
    Fail(node, "cannot work with '" + program_.tensor(id).name + "' as ranks share it");
  }

  [[noreturn]] static void Fail(const Node& node, const std::string& reason) {
    throw InternalError("tensor_parallel: " + node.op->name + " @" + node.scope + " " + reason);
  }

  // Whether the node reads parameters, or casts of them, after the inputs that decide its sharding
  // (ShardingRule::inputs).
  bool ReadsParameters(const Node& node) const {
    for (size_t i = static_cast<size_t>(node.op->sharding.inputs); i < node.inputs.size(); ++i) {
      if (HasInput(node, i) && parameters_.contains(node.inputs[i])) return true;
    }
    return false;
  }

  static void SetAxis(Node& node) { node.attributes.Set("axis", std::string(kTensorAxis)); }

  static size_t Weight(const Node& node) { return static_cast<size_t>(node.op->sharding.weight); }

  // Whether the node draws random numbers. With the axis set, it draws for its shard the numbers
  // that a single rank would draw there.
  static bool Draws(const Node& node) {
    if (!node.op->random) return false;
    const auto rng = std::ranges::find(node.op->inputs, "rng", &graph::Argument::name);
    return HasInput(node, static_cast<size_t>(rng - node.op->inputs.begin()));
  }

  TensorId AddPartOf(TensorId whole) {
    Tensor part;
    part.name = program_.FreshName(program_.tensor(whole).name + ".part");
    part.type = program_.tensor(whole).type;
    return program_.AddTensor(std::move(part));
  }

  Program& program_;
  const TensorParallelOptions& options_;
  graph::Builder builder_;
  std::set<TensorId> parameters_;  // parameters and the results of their casts
  // the split of each parameter, and of each cast of a parameter
  std::map<TensorId, ParameterPart::Split> splits_;
  std::map<TensorId, Layout> layouts_;    // the layout of each tensor; if absent: unsharded
  std::map<TensorId, TensorId> sums_of_;  // maps a tensor of addends to their sum
  // maps a tensor to the unsharded tensor that split layers read
  std::map<TensorId, TensorId> wholes_;
  Shape batch_;  // [B,T] if ranks share rows
  int sums_ = 0;
};

}  // namespace

graph::PassResult TensorParallel::Run(Program& program) {
  return Splitter(program, options_).Run();
}

}  // namespace plimsoll::parallel
