#include "parallel/zero_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/bytes.h"
#include "graph/block.h"
#include "graph/builder.h"
#include "graph/companions.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "parallel/zero_shards.h"

namespace plimsoll::parallel {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Shape;
using graph::Tensor;
using graph::TensorId;

class Divider {
 public:
  Divider(Program& program, int64_t ranks) : program_(program), builder_(program) {
    builder_.set_made_by("zero_parameters");
    for (const TensorId id : graph::TensorIds(program)) {
      Tensor& tensor = program.mutable_tensor(id);
      if (!IsDividedWeight(tensor, ranks)) continue;
      const Shape whole = shapes_[id] = tensor.type.shape;
      whole_bytes_ += tensor.bytes();
      tensor.type.shape = PartOf(whole, ranks);
      bytes_ += tensor.bytes();
    }
  }

  graph::PassResult Run() {
    for (Node& node : std::exchange(program_.mutable_nodes(), {})) {
      const bool is_part = node.op->name == "own_part" && shapes_.contains(node.inputs[0]);
      if (is_part) {
        instead_[node.outputs[0]] = node.inputs[0];
        continue;
      }
      for (TensorId& id : node.inputs) {
        if (node.phase != Phase::kUpdate && shapes_.contains(id)) id = Whole(id, node.phase);
        id = graph::Substitute(instead_, id);
      }
      for (TensorId& id : node.outputs) id = graph::Substitute(instead_, id);
      program_.mutable_nodes().push_back(std::move(node));
    }
    for (const auto& [view, part] : instead_) program_.mutable_tensor(view).persistent = false;
    program_.DropUnusedTensors();
    return {!shapes_.empty(),
            fmt::format("{} divided, {} instead of {}", Counted(shapes_.size(), "parameter"),
                        FormatBytes(bytes_), FormatBytes(whole_bytes_))};
  }

 private:
  TensorId Whole(TensorId part, Phase phase) {
    const auto [found, fresh] = wholes_.try_emplace(part, kNoTensor);
    if (!fresh) return found->second;
    builder_.set_phase(phase);
    builder_.set_scope(program_.tensor(part).name);
    const TensorId gathered = builder_.Emit1(
        "all_gather_start", {part}, ops::AlongAxis(kDataAxis, shapes_.at(part)), "gathered");
    return found->second = builder_.Emit1("all_gather_done", {gathered, part}, {}, "whole");
  }

  Program& program_;
  graph::Builder builder_;
  std::map<TensorId, Shape> shapes_;     // maps a sharded parameter to its unsharded shape
  std::map<TensorId, TensorId> wholes_;  // maps a shard to the gathered tensor that readers use
  // maps a view of an unsharded tensor to the shard that replaces it
  std::map<TensorId, TensorId> instead_;
  int64_t bytes_ = 0, whole_bytes_ = 0;
};

// Removes gathers of parameters that are still unsharded from an earlier gather.
class GatherJoiner {
 public:
  explicit GatherJoiner(Program& program) : program_(program), nodes_(program.nodes()) {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      for (TensorId id : graph::Present(node.inputs)) {
        const auto gather = gathers_.find(program.Root(id));
        if (gather == gathers_.end()) continue;
        gather->second.last_read = n;
        if (node.op->name != "all_gather_done") continue;
        gather->second.done = n;
        gather->second.whole = node.outputs[0];
      }
      if (graph::MakesParameter(program, node)) {
        for (TensorId id : graph::Present(node.outputs)) makers_[id] = n;
      }
      if (ops::GathersParameter(program, node)) gathers_[node.outputs[0]] = {n};
    }
  }

  graph::PassResult Run() {
    for (const Node& node : nodes_) {
      for (TensorId id : graph::Present(node.outputs)) {
        current_.erase(program_.Root(id));  // the parameter has another value from here on
      }
      if (ops::GathersParameter(program_, node)) Join(node);
    }
    if (joined_ == 0) return {false, "each whole is gathered once"};
    for (const TensorId id : graph::TensorIds(program_)) {
      std::optional<graph::Alias>& alias = program_.mutable_tensor(id).alias;
      if (alias) alias->base = graph::Substitute(instead_, alias->base);
    }
    std::vector<Node>& left = program_.mutable_nodes();
    left.clear();
    for (Node& node : nodes_) {
      if (IsJoined(node)) continue;
      for (TensorId& id : node.inputs) id = graph::Substitute(instead_, id);
      left.push_back(std::move(node));
    }
    program_.DropUnusedTensors();
    return {true, fmt::format("{} left out", Counted(joined_, "gather"))};
  }

 private:
  // The indices of the nodes of one gather.
  struct Gather {
    size_t start = 0, done = 0, last_read = 0;
    TensorId whole = kNoTensor;
  };

  // Whether the gather that the node belongs to is removed. The node then writes only tensors that
  // have a substitute, or codes that are not sent. A node that makes such codes stays if another
  // node still reads their scale.
  bool IsJoined(Node& node) const {
    int left_out = 0, stay = 0;
    for (TensorId& id : node.outputs) {
      if (id == kNoTensor) continue;
      const bool gone = instead_.contains(id) || unsent_.contains(id);
      ++(gone ? left_out : stay);
      if (gone) id = kNoTensor;
    }
    return left_out > 0 && stay == 0;
  }

  // The node that makes codes of a parameter's part for the start of a gather; nullptr if the part
  // itself is sent.
  const Node* MakerFor(const Node& start) const {
    const auto maker = makers_.find(start.inputs[0]);
    return maker == makers_.end() ? nullptr : &nodes_[maker->second];
  }

  void Join(const Node& start) {
    const Gather& gather = gathers_.at(start.outputs[0]);
    const Node* const maker = MakerFor(start);
    const TensorId part = maker == nullptr ? start.inputs[0] : maker->inputs[0];
    const auto [before, fresh] = current_.try_emplace(program_.Root(part), start.outputs[0]);
    if (fresh) return;
    Gather& earlier = gathers_.at(before->second);
    if (gather.start > earlier.last_read || gather.done < earlier.done) {
      before->second = start.outputs[0];
      return;
    }
    earlier.last_read = std::max(earlier.last_read, gather.last_read);
    instead_[start.outputs[0]] = before->second;
    instead_[gather.whole] = earlier.whole;
    ++joined_;
    if (maker == nullptr) return;
    unsent_.insert(start.inputs[0]);
    // All nodes that make codes of a parameter use the same scale.
    const Node& as_before = *MakerFor(nodes_[earlier.start]);
    for (size_t i = 0; i < maker->outputs.size(); ++i) {
      const TensorId id = maker->outputs[i];
      if (id == kNoTensor || id == start.inputs[0] || as_before.outputs[i] == kNoTensor) continue;
      instead_[id] = as_before.outputs[i];
    }
  }

  Program& program_;
  std::vector<Node> nodes_;  // the original nodes
  // maps the tensor that a gather's start writes to the gather
  std::map<TensorId, Gather> gathers_;
  std::map<TensorId, size_t> makers_;  // maps codes to the index of the node that makes them
  // maps a parameter to the tensor that the start of its latest gather writes
  std::map<TensorId, TensorId> current_;
  std::map<TensorId, TensorId> instead_;  // maps a tensor of a removed gather to its substitute
  std::set<TensorId> unsent_;             // codes made for removed gathers
  int joined_ = 0;
};

}  // namespace

graph::PassResult JoinGathers::Run(Program& program) { return GatherJoiner(program).Run(); }

graph::PassResult ZeroParameters::Run(Program& program) { return Divider(program, ranks_).Run(); }

// Moves each start to the first start of the group before its own, but not before a node whose
// result it needs. A group is the consecutive starts of one block. The nodes that make the codes to
// be sent move before the group, so that its starts stay consecutive.
graph::PassResult PrefetchParameters::Run(Program& program) {
  std::vector<Node> result;
  // Positions in `result`: where the next start of the group goes, where its first start is, and
  // where its next codes are made.
  size_t group = 0, previous = 0, codes = 0;
  std::optional<std::string> block;  // the block of the current group
  int starts = 0;
  const size_t forward_end = graph::ForwardEnd(program);
  std::vector<Node> nodes = std::exchange(program.mutable_nodes(), {});
  const auto insert = [&](Node node, size_t at) {
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), std::move(node));
    ++previous;
    ++group;
  };
  // The earliest position, at least `least`, that is after all nodes that write the inputs of
  // `node`.
  const auto earliest = [&](const Node& node, size_t least) {
    size_t at = result.size();
    const auto writes = [&](TensorId id) {
      return id != kNoTensor && std::ranges::any_of(graph::Present(node.inputs), [&](TensorId in) {
               return program.Root(in) == program.Root(id);
             });
    };
    while (at > least && std::ranges::none_of(result[at - 1].outputs, writes)) --at;
    return at;
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    Node& node = nodes[n];
    if (n == forward_end) {
      group = previous = codes = result.size();  // the next group starts no earlier than here
      block.reset();
    }
    if (!ops::GathersParameter(program, node)) {
      result.push_back(std::move(node));
      continue;
    }
    ++starts;
    std::optional<Node> maker;
    if (!result.empty() && graph::MakesParameter(program, result.back()) &&
        std::ranges::count(result.back().outputs, node.inputs[0]) > 0) {
      maker = std::move(result.back());
      result.pop_back();
    }
    if (graph::BlockIn(node.scope) != block) {
      block = graph::BlockIn(node.scope);
      codes = previous = std::exchange(group, result.size());
    }
    if (maker) {
      codes = earliest(*maker, codes);
      previous = std::max(previous, codes);
      group = std::max(group, codes);
      insert(*std::move(maker), codes++);
    }
    insert(std::move(node), previous);
  }
  program.mutable_nodes() = std::move(result);
  return {starts > 0, fmt::format("{} {} to arrive a block ahead", Counted(starts, "parameter"),
                                  starts == 1 ? "starts" : "start")};
}

}  // namespace plimsoll::parallel
