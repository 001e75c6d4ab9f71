#include "checkpointing/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "checkpointing/saved.h"
#include "checkpointing/view.h"
#include "graph/block.h"
#include "ops/collectives/collective.h"

namespace plimsoll::checkpointing {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Retention;
using graph::Tensor;
using graph::TensorId;

constexpr std::string_view kSuffix = ".again";

class Recomputer {
 public:
  explicit Recomputer(Program& program)
      : program_(program),
        forward_(ForwardNodes(program)),
        view_nodes_(FindViewNodes(program)),
        tensors_(program.tensors().size()) {
    for (const SavedTensor& saved : FindSaved(program)) {
      bytes_before_ += saved.bytes;
      Info& info = tensors_[saved.tensor];
      info.uses = saved.uses;
      info.kept = program.tensor(saved.tensor).retention != Retention::kRecompute ||
                  !saved.recomputable || saved.read_at_once;
      any_ = any_ || !info.kept;
    }
    if (!any_) return;
    const std::vector<Node>& nodes = program.nodes();
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      for (TensorId id : nodes[n].inputs) {
        if (id == kNoTensor || n < forward_) continue;
        // A tensor outside the saved set is a gradient, and gradients are kept.
        Info& info = tensors_[program.Root(id)];
        if (info.uses.empty()) info.kept = true;
      }
      for (TensorId id : nodes[n].outputs) {
        if (id == kNoTensor || nodes[n].op->view) continue;
        tensors_[program.Root(id)].writers.push_back(n);
      }
    }
    KeepWhatBlocksGive();
  }

  graph::PassResult Run() {
    if (!any_) return {false, "nothing to recompute"};
    // Only nodes of the forward pass are copied: clones are made of them.
    nodes_ = std::move(program_.mutable_nodes());
    result_.reserve(2 * nodes_.size());
    result_.assign(nodes_.begin(), nodes_.begin() + forward_);
    for (at_ = forward_; at_ < static_cast<int>(nodes_.size()); ++at_) {
      // A view of a recomputed tensor is emitted again before each reader.
      if (nodes_[at_].op->view && Recomputed(program_.Root(nodes_[at_].outputs[0]))) continue;
      Node node = std::move(nodes_[at_]);
      for (TensorId& id : node.inputs) id = Again(id);
      result_.push_back(std::move(node));
      DropCheapClones();
    }
    program_.mutable_nodes() = std::move(result_);
    LeaveOutUnread();
    program_.DropUnusedTensors();
    return {true,
            fmt::format("{} added, activations {} → {}", Counted(added_, "node"),
                        FormatBytes(bytes_before_), FormatBytes(TotalBytes(FindSaved(program_))))};
  }

 private:
  struct Info {
    bool kept = false;
    std::vector<int>
        uses;  // nodes after the forward pass that read the tensor, if it is in the saved set
    std::vector<int> writers;  // nodes that write the tensor, without nodes that make views
    TensorId clone = kNoTensor;
  };

  int LastUse(TensorId root) const {
    return tensors_[root].uses.empty() ? -1 : tensors_[root].uses.back();
  }

  // Whether the forward pass writes the tensor and it is not kept.
  bool Recomputed(TensorId root) const {
    if (static_cast<size_t>(root) >= tensors_.size()) return false;
    const Info& info = tensors_[root];
    const Tensor& tensor = program_.tensor(root);
    return !tensor.persistent && !tensor.type.scalar() && !info.kept && !info.writers.empty() &&
           info.writers.front() < forward_;
  }

  // Whether cheap nodes can compute the tensor from kept tensors.
  bool IsCheap(TensorId root) const {
    const Node& maker = program_.nodes()[tensors_[root].writers.front()];
    return maker.op->cheap_to_recompute && std::ranges::all_of(maker.inputs, [&](TensorId id) {
             return id == kNoTensor || !Recomputed(program_.Root(id)) || IsCheap(program_.Root(id));
           });
  }

  // Keeps results of a block that only other blocks' forward nodes read, unless they are cheap to
  // recompute. Visits nodes in program order, because a kept result makes other results cheap.
  void KeepWhatBlocksGive() {
    const graph::Blocks blocks(program_);
    for (int n = 0; n < forward_; ++n) {
      for (const TensorId id : program_.nodes()[n].inputs) {
        if (id == kNoTensor) continue;
        const TensorId root = program_.Root(id);
        if (!Recomputed(root) || LastUse(root) >= 0) continue;
        const int from = blocks.Of(static_cast<size_t>(tensors_[root].writers.front()));
        if (from == graph::kNoBlock || from == blocks.Of(static_cast<size_t>(n))) continue;
        if (!IsCheap(root)) tensors_[root].kept = true;
      }
    }
  }

  // The tensor that node at_ must read instead of `id`.
  TensorId Again(TensorId id) {
    if (id == kNoTensor) return id;
    const TensorId root = program_.Root(id);
    if (!Recomputed(root)) return id;
    if (id != root) return ViewAgain(id);
    if (tensors_[root].clone == kNoTensor) Clone(tensors_[root].writers.front());
    return tensors_[root].clone;
  }

  TensorId ViewAgain(TensorId view) {
    const TensorId base = Again(program_.tensor(view).alias->base);
    const int n = view_nodes_[view];
    // All readers share one clone of the node that ends the collective. With several such clones,
    // the inputs of the node would have to live longer.
    const bool done = n >= 0 && ops::IsCollectiveDone(*nodes_[n].op);
    if (done && done_.contains(base)) return done_.at(base);
    const TensorId again = AddViewLike(program_, view, base, std::string(kSuffix));
    if (done) done_[base] = again;
    if (n >= 0) {
      Node node = Copy(n);
      for (TensorId& id : node.inputs) id = Again(id);
      node.outputs = {again};
      result_.push_back(std::move(node));
    }
    return again;
  }

  Node Copy(int n) {
    Node node = nodes_[n];
    if (node.workspace != kNoTensor) {
      throw InternalError("recompute: workspaces come after it, but node " + std::to_string(n) +
                          " (" + node.op->name + ") has one");
    }
    node.phase = Phase::kRecompute;
    node.made_by = "recompute";
    return node;
  }

  void Clone(int n) {
    CheckRepeatable(n);
    Node node = Copy(n);
    for (TensorId& id : node.inputs) id = Again(id);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      TensorId& id = node.outputs[i];
      if (id == kNoTensor) continue;
      const TensorId original = id;
      const bool there = !Recomputed(original) || tensors_[original].clone != kNoTensor;
      if (there && node.op->outputs[i].optional) {
        id = kNoTensor;
        continue;
      }
      Tensor tensor = program_.tensor(original);
      tensor.name = program_.FreshName(tensor.name + std::string(kSuffix));
      tensor.retention = Retention::kSave;
      tensor.merge.reset();  // only the original is merged
      id = program_.AddTensor(std::move(tensor));
      if (!there) tensors_[original].clone = id;
    }
    result_.push_back(std::move(node));
    ++added_;
    if (nodes_[n].op->cheap_to_recompute) cheap_clones_.push_back(n);
  }

  void CheckRepeatable(int n) const {
    const Node& node = nodes_[n];
    for (TensorId id : node.outputs) {
      if (id == kNoTensor || !program_.tensor(program_.Root(id)).persistent) continue;
      throw InternalError(
          fmt::format("recompute: node {} ({}) writes '{}', which outlives the "
                      "program, so it must not run twice",
                      n, node.op->name, program_.tensor(id).name));
    }
    for (TensorId id : node.inputs) {
      if (id == kNoTensor || !program_.tensor(program_.Root(id)).persistent) continue;
      for (int writer : tensors_[program_.Root(id)].writers) {
        if (writer <= n || writer >= at_) continue;
        throw InternalError(fmt::format(
            "recompute: node {} ({}) would read '{}' again at node {}, after node {} ({}) has "
            "changed it",
            n, node.op->name, program_.tensor(id).name, at_, writer, nodes_[writer].op->name));
      }
    }
  }

  // The next original node after at_ that reads the tensor; -1 if no such node exists.
  int NextUse(TensorId root) const {
    const std::vector<int>& uses = tensors_[root].uses;
    const auto use = std::upper_bound(uses.begin(), uses.end(), at_);
    return use == uses.end() ? -1 : *use;
  }

  // Whether node n could run again at node `when` from tensors that are alive there in any case.
  bool IsFree(int n, int when) const {
    if (!nodes_[n].op->cheap_to_recompute) return false;
    return std::all_of(nodes_[n].inputs.begin(), nodes_[n].inputs.end(), [&](TensorId id) {
      if (id == kNoTensor) return true;
      const TensorId root = program_.Root(id);
      const Tensor& tensor = program_.tensor(root);
      if (tensor.persistent || tensor.type.scalar()) return true;
      const Info& info = tensors_[root];
      if (info.kept || info.clone != kNoTensor) {
        if (LastUse(root) >= when) return true;
      }
      return Recomputed(root) && IsFree(info.writers.front(), when);
    });
  }

  // Forgets clones that are cheaper to recompute than to keep until their next use. Only first
  // results of nodes are considered. Further results, such as statistics, are small, and not worth
  // running the node again.
  void DropCheapClones() {
    std::erase_if(cheap_clones_, [&](int n) {
      const TensorId root = program_.Root(*std::ranges::find_if_not(
          nodes_[n].outputs, [](TensorId id) { return id == kNoTensor; }));
      if (tensors_[root].clone == kNoTensor) return true;
      const int next = NextUse(root);
      if (next == at_ + 1) return false;
      if (!IsFree(n, next < 0 ? at_ + 1 : next)) return next < 0;
      tensors_[root].clone = kNoTensor;
      return true;
    });
  }

  // Removes optional results of clones and of the forward pass that no node reads any more.
  void LeaveOutUnread() {
    std::vector<bool> read(program_.tensors().size(), false);
    for (const Node& node : program_.nodes()) {
      for (TensorId id : node.inputs) {
        if (id != kNoTensor) read[program_.Root(id)] = true;
      }
    }
    for (Node& node : program_.mutable_nodes()) {
      if (node.phase != Phase::kForward && node.phase != Phase::kRecompute) continue;
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        TensorId& id = node.outputs[i];
        if (id == kNoTensor || !node.op->outputs[i].optional || read[program_.Root(id)]) continue;
        const Tensor& tensor = program_.tensor(id);
        if (!tensor.alias && !tensor.persistent && tensor.role == graph::Role::kActivation) {
          id = kNoTensor;
        }
      }
    }
  }

  Program& program_;
  const int forward_;
  std::vector<Node> nodes_;            // the original nodes
  const std::vector<int> view_nodes_;  // by original tensor: the node that makes it, if it is a
                                       // view
  std::vector<Info> tensors_;          // by original tensor; meaningful for owners of memory
  std::vector<Node> result_;
  std::map<TensorId, TensorId>
      done_;  // maps the clone of a collective's result to the tensor that readers read instead
  std::vector<int> cheap_clones_;  // nodes whose cheap clone has results that may be read again
  int at_ = 0;                     // index of the original node for which clones are made
  bool any_ = false;
  int added_ = 0;
  int64_t bytes_before_ = 0;
};

}  // namespace

graph::PassResult Recompute::Run(Program& program) { return Recomputer(program).Run(); }

}  // namespace plimsoll::checkpointing
