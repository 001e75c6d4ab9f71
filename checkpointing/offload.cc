#include "checkpointing/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "checkpointing/saved.h"
#include "checkpointing/view.h"
#include "graph/block.h"
#include "ops/collectives/collective.h"

namespace plimsoll::checkpointing {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Place;
using graph::Program;
using graph::Retention;
using graph::Tensor;
using graph::TensorId;

constexpr char kCopySuffix[] = ".here";

// The number of groups whose copies may be in flight each way.
constexpr int64_t kCopiesInFlight = 2;
// A copy is planned to take this multiple of its estimated time, because copies may be slower than
// assumed, or nodes faster.
constexpr double kCopySlack = 1.5;

// A saved activation that is copied to the host and prefetched for the backward pass.
struct Offloaded {
  TensorId original = kNoTensor;  // the tensor on the device, until it is evicted
  TensorId host = kNoTensor;      // the copy on the host, in flight
  TensorId away = kNoTensor;      // the copy on the host, complete
  TensorId back = kNoTensor;      // the prefetched copy on the device, in flight
  TensorId here = kNoTensor;      // the prefetched copy on the device, complete
  int block = graph::kNoBlock;    // the block of the producer
  std::string scope;
};

class Offloader {
 public:
  Offloader(Program& program, const OffloadOptions& options)
      : program_(program),
        options_(options),
        forward_(ForwardNodes(program)),
        view_nodes_(FindViewNodes(program)),
        offloaded_of_(program.tensors().size(), -1) {}

  graph::PassResult Run() {
    const std::vector<SavedTensor> saved = FindSaved(program_);
    int64_t bytes = 0;
    for (const SavedTensor& tensor : saved) {
      if (program_.tensor(tensor.tensor).retention != Retention::kOffload || tensor.read_at_once) {
        continue;
      }
      bytes += tensor.bytes;
      Plan(tensor);
    }
    if (offloaded_.empty()) return {false, "nothing to offload"};
    SetSizes(evictions_);
    SetSizes(fetches_);
    room_ = kCopiesInFlight * (Timed() ? BytesOfLargestBlock() : 1);
    nodes_ = std::move(program_.mutable_nodes());
    result_.reserve(nodes_.size() + 4 * offloaded_.size());
    SetEvictionEnds();
    SetFetchStarts();
    Forward();
    Backward();
    program_.mutable_nodes() = std::move(result_);
    program_.DropUnusedTensors();
    return {
        true,
        fmt::format("{} {} on the host, activations {} → {}", Counted(offloaded_.size(), "tensor"),
                    offloaded_.size() == 1 ? "waits" : "wait", FormatBytes(TotalBytes(saved)),
                    FormatBytes(TotalBytes(saved) - bytes))};
  }

 private:
  // A group of tensors that are evicted, or are needed, at the same node.
  struct Group {
    std::vector<int> tensors;
    int64_t size = 0;  // how much the group's copies count against the limit on copies in flight
    int node = 0;      // the node before which the eviction ends, or the prefetch starts
  };
  using Groups = std::map<int, Group>;  // groups by the index of their node

  void Plan(const SavedTensor& saved) {
    const int offloaded = static_cast<int>(offloaded_.size());
    const int last = saved.forward_uses.empty() ? saved.producer : saved.forward_uses.back();
    evictions_[last].tensors.push_back(offloaded);
    fetches_[saved.uses.front()].tensors.push_back(offloaded);
    offloaded_of_[saved.tensor] = offloaded;
    Offloaded planned;
    planned.original = saved.tensor;
    planned.block = saved.block;
    planned.scope = program_.nodes()[saved.producer].scope;
    offloaded_.push_back(std::move(planned));
  }

  TensorId AddTensor(const Offloaded& offloaded, const char* suffix, Place place,
                     TensorId view_of) {
    const Tensor& original = program_.tensor(offloaded.original);
    Tensor tensor;
    tensor.name = program_.FreshName(original.name + suffix);
    tensor.type = original.type;
    tensor.place = place;
    if (view_of != kNoTensor) tensor.alias = graph::Alias{view_of, 0};
    return program_.AddTensor(std::move(tensor));
  }

  void Emit(const Offloaded& offloaded, const char* op, std::vector<TensorId> inputs,
            TensorId output) {
    Node node;
    node.op = &graph::OpRegistry::Get().Require(op);
    node.inputs = std::move(inputs);
    node.outputs = {output};
    node.phase = phase_;
    node.scope = offloaded.scope;
    node.made_by = "offload";
    result_.push_back(std::move(node));
  }

  // If the times of copies are unknown, a group has size 1. If they are known, a group's size is
  // its bytes, because the copies of one block start at short intervals and may last until the
  // copies of the next block start.
  void SetSizes(Groups& groups) const {
    for (auto& [node, group] : groups) {
      if (!Timed()) {
        group.size = 1;
        continue;
      }
      for (int offloaded : group.tensors) group.size += BytesOf(offloaded_[offloaded]);
    }
  }

  int64_t BytesOf(const Offloaded& offloaded) const {
    return program_.tensor(offloaded.original).bytes();
  }

  // The bytes of the block whose tensors have the most bytes, or of the largest group if that has
  // more.
  int64_t BytesOfLargestBlock() const {
    int64_t most = 0;
    for (const auto& [node, group] : evictions_) most = std::max(most, group.size);
    for (const auto& [node, group] : fetches_) most = std::max(most, group.size);
    std::map<int, int64_t> by_block;
    for (const Offloaded& offloaded : offloaded_) {
      if (offloaded.block != graph::kNoBlock)
        most = std::max(most, by_block[offloaded.block] += BytesOf(offloaded));
    }
    return most;
  }

  bool Timed() const { return options_.node_seconds != nullptr; }

  // The start time of each of the nodes [from, to), and the end time of the last one.
  std::vector<double> Times(int from, int to) const {
    std::vector<double> times = {0};
    for (int n = from; n < to; ++n) {
      const bool view = nodes_[n].op->view;
      times.push_back(times.back() +
                      (view ? 0 : options_.node_seconds(program_.CallOf(nodes_[n]).get())));
    }
    return times;
  }

  double CopySeconds(const Group& group) const {
    double seconds = 0;
    for (int offloaded : group.tensors) {
      seconds += options_.copy_seconds(BytesOf(offloaded_[offloaded]));
    }
    return seconds;
  }

  // Sets where evictions end. Copies run one after another.
  void SetEvictionEnds() {
    for (auto& [node, group] : evictions_) group.node = forward_;
    if (!Timed()) return;
    const std::vector<double> times = Times(0, forward_);
    double free_from = 0;  // when the link becomes free
    for (auto& [node, group] : evictions_) {
      const double seconds = CopySeconds(group), start = std::max(times[node + 1], free_from);
      free_from = start + seconds;
      const auto end = std::ranges::lower_bound(times, start + kCopySlack * seconds);
      group.node = static_cast<int>(end - times.begin());
    }
  }

  void SetFetchStarts() {
    for (auto& [node, group] : fetches_) group.node = forward_;
    if (!Timed()) return;
    const std::vector<double> times = Times(forward_, static_cast<int>(nodes_.size()));
    double latest = times.back();  // the latest time at which the copy may end
    for (auto& [node, group] : std::views::reverse(fetches_)) {
      const double seconds = CopySeconds(group);
      latest = std::min(latest, times[node - forward_]);
      const double start = std::max(0.0, latest - kCopySlack * seconds);
      const auto after = std::ranges::upper_bound(times, start);
      group.node = std::min(node, forward_ + static_cast<int>(after - times.begin()) - 1);
      latest -= seconds;
    }
  }

  void Forward() {
    std::deque<const Group*> departing;
    int64_t size = 0;  // the size of the departing groups
    const auto finish_while = [&](auto condition) {
      for (; !departing.empty() && condition(*departing.front()); departing.pop_front()) {
        for (int offloaded : departing.front()->tensors) FinishEviction(offloaded_[offloaded]);
        size -= departing.front()->size;
      }
    };
    for (int n = 0; n < forward_; ++n) {
      finish_while([&](const Group& group) { return group.node <= n; });
      Move(n);
      const auto found = evictions_.find(n);
      if (found == evictions_.end()) continue;
      const Group& leaves = found->second;
      finish_while([&](const Group&) { return size + leaves.size > room_; });
      for (int offloaded : leaves.tensors) StartEviction(offloaded_[offloaded]);
      departing.push_back(&leaves);
      size += leaves.size;
    }
    finish_while([](const Group&) { return true; });
  }

  void Backward() {
    auto next = fetches_.cbegin(), needed = next;  // the next group to start, and the next group to
                                                   // await
    int64_t size = 0;  // the size of the groups from `needed` up to `next`
    const auto start_until = [&](int n) {
      for (; next != fetches_.cend(); ++next) {
        const Group& group = next->second;
        if (group.node > n || size + group.size > room_) return;
        for (int offloaded : group.tensors) StartFetch(offloaded_[offloaded]);
        size += group.size;
      }
    };
    for (int n = forward_; n < static_cast<int>(nodes_.size()); ++n) {
      phase_ = nodes_[n].phase;
      start_until(n);
      if (needed != fetches_.cend() && needed->first == n) {
        for (int offloaded : needed->second.tensors) FinishFetch(offloaded_[offloaded]);
        size -= needed->second.size;
        ++needed;
        start_until(n);
      }
      Move(n);
    }
  }

  void StartEviction(Offloaded& offloaded) {
    offloaded.host = AddTensor(offloaded, ".host", Place::kHost, kNoTensor);
    Emit(offloaded, "copy_start", {offloaded.original}, offloaded.host);
  }

  void FinishEviction(Offloaded& offloaded) {
    offloaded.away = AddTensor(offloaded, ".away", Place::kHost, offloaded.host);
    Emit(offloaded, "copy_done", {offloaded.host, offloaded.original}, offloaded.away);
  }

  void StartFetch(Offloaded& offloaded) {
    offloaded.back = AddTensor(offloaded, ".back", Place::kDevice, kNoTensor);
    Emit(offloaded, "copy_start", {offloaded.away}, offloaded.back);
  }

  void FinishFetch(Offloaded& offloaded) {
    offloaded.here = AddTensor(offloaded, kCopySuffix, Place::kDevice, offloaded.back);
    Emit(offloaded, "copy_done", {offloaded.back, offloaded.away}, offloaded.here);
  }

  bool IsOffloaded(TensorId root) const {
    return static_cast<size_t>(root) < offloaded_of_.size() && offloaded_of_[root] >= 0;
  }

  // Adds a node of the original program to the result. A node after the forward pass reads the
  // prefetched copies.
  void Move(int n) {
    const bool view = nodes_[n].op->view;
    if (n >= forward_ && view && IsOffloaded(program_.Root(nodes_[n].outputs[0])))
      return;  // a view of an offloaded tensor is emitted again before each reader
    // A view may be emitted again later, so it is copied. Of other nodes, only op and phase are
    // read again.
    Node node = view ? nodes_[n] : std::move(nodes_[n]);
    if (n >= forward_) {
      for (TensorId& id : node.inputs) id = DeviceCopy(id);
    }
    result_.push_back(std::move(node));
  }

  TensorId DeviceCopy(TensorId id) {
    if (id == kNoTensor || !IsOffloaded(program_.Root(id))) return id;
    if (!program_.tensor(id).alias) return offloaded_[offloaded_of_[id]].here;
    const TensorId base = DeviceCopy(program_.tensor(id).alias->base);
    const TensorId view = AddViewLike(program_, id, base, kCopySuffix);
    const int n = view_nodes_[id];
    // The end of a collective is needed before its result can be evicted.
    if (n >= 0 && !ops::IsCollectiveDone(*nodes_[n].op)) {
      Node node = nodes_[n];
      node.inputs[0] = base;
      node.outputs = {view};
      node.phase = phase_;
      node.made_by = "offload";
      result_.push_back(std::move(node));
    }
    return view;
  }

  Program& program_;
  const OffloadOptions& options_;
  const int forward_;
  std::vector<Node> nodes_;            // the original nodes
  const std::vector<int> view_nodes_;  // by original tensor: the node that makes it if it is a view
  std::vector<int>
      offloaded_of_;  // by original tensor: its index in offloaded_; -1 if it is not offloaded
  std::vector<Offloaded> offloaded_;
  Groups evictions_;  // by the index of the node after which they start
  Groups fetches_;    // by the index of the node before which they are done
  int64_t room_ = 0;  // the limit on copies in flight, each way
  std::vector<Node> result_;
  Phase phase_ = Phase::kForward;
};

}  // namespace

graph::PassResult Offload::Run(Program& program) { return Offloader(program, options_).Run(); }

}  // namespace plimsoll::checkpointing
