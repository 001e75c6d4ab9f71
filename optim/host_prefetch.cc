#include "optim/host_prefetch.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "ops/collectives/collective.h"
#include "optim/spare_bytes.h"
#include "optim/update_units.h"

namespace plimsoll::optim {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Place;
using graph::Program;
using graph::Tensor;
using graph::TensorId;

// The copy on the device of a tensor that is placed on the host.
struct DeviceCopy {
  TensorId staged = kNoTensor;   // the copy while it is fetched
  TensorId current = kNoTensor;  // what nodes read: the fetched copy, or a newer value
  std::map<TensorId, TensorId>
      views;  // maps a view of the tensor on the host to the view of `current`
};

// A copy that is being written back to the host.
struct Eviction {
  TensorId host = kNoTensor;
  TensorId value = kNoTensor;
  Phase phase = Phase::kForward;
  std::string scope;
};

// The default limit: twice the bytes of the largest group of a block (optim/host_parameters.h).
int64_t DefaultAhead(const std::vector<FetchGroup>& groups) {
  int64_t largest = 0;
  for (const FetchGroup& group : groups) {
    if (group.in_block && !group.at_end) largest = std::max(largest, group.bytes);
  }
  return 2 * largest;
}

// The bytes that stay free below the program's peak during the update at the end of the program,
// reduced by the bytes of residencies that last into the update.
int64_t SpareAtEnd(const Program& program, const std::vector<FetchGroup>& groups) {
  const size_t begin = graph::UpdateTail(program);
  const std::vector<int64_t> spare = SpareBytes(program);
  if (begin >= spare.size()) return 0;
  int64_t bytes = *std::min_element(spare.begin() + static_cast<ptrdiff_t>(begin), spare.end());
  for (const FetchGroup& group : groups) {
    for (const Residency& residency : group.residencies) {
      if (residency.first < begin && residency.last >= begin)
        bytes -= program.tensor(residency.tensor).bytes();
    }
  }
  return bytes;
}

class Transfers {
 public:
  Transfers(Program& program, const std::vector<FetchGroup>& groups, int64_t ahead_bytes)
      : program_(program),
        builder_(program),
        slices_(program),
        groups_(groups),
        ahead_bytes_(ahead_bytes) {
    builder_.set_made_by("host_parameters");
    bool evicts_at_end = false;
    int64_t largest_at_end = 0;
    for (const FetchGroup& group : groups) {
      evicts_at_end = evicts_at_end ||
                      (group.at_end && std::ranges::any_of(group.residencies, &Residency::changes));
      if (group.at_end) largest_at_end = std::max(largest_at_end, group.bytes);
      if (group.at_end && group.in_block) end_bytes_ = std::max(end_bytes_, group.bytes);
      for (const Residency& residency : group.residencies) {
        ends_[residency.last].push_back(&residency);
        remaining_[residency.tensor].push_back(&residency);
        if (slices_.Contains(residency.tensor))
          overlaps_[residency.tensor] = {program.Root(residency.tensor)};
      }
    }
    if (end_bytes_ > 0) {
      // The group in use needs room in addition to copies in flight.
      const int64_t spare = SpareAtEnd(program, groups) - largest_at_end;
      end_bytes_ = std::max(end_bytes_, evicts_at_end ? spare / 2 : spare);
    }
    for (const auto& [slice, whole] : std::map(overlaps_)) {
      overlaps_[whole.front()].push_back(slice);
    }
    view_nodes_.assign(program.tensors().size(), kNoNode);
    for (size_t n = 0; n < program.nodes().size(); ++n) {
      if (program.nodes()[n].op->view) {
        view_nodes_[static_cast<size_t>(program.nodes()[n].outputs[0])] = n;
      }
    }
  }

  void Run() {
    nodes_ = std::exchange(program_.mutable_nodes(), {});
    program_.mutable_nodes().reserve(2 * nodes_.size());
    for (now_ = 0; now_ < nodes_.size(); ++now_) {
      if (begun_ < groups_.size() && groups_[begun_].first == now_) {
        Begin(groups_[begun_]);
      } else {
        Prefetch();
      }
      Rewrite(nodes_[now_]);
      const auto ends = ends_.find(now_);
      if (ends == ends_.end()) continue;
      for (const Residency* residency : ends->second) End(*residency);
    }
    if (!nodes_.empty()) now_ = nodes_.size() - 1;
    FinishEvictions(0);
    program_.DropUnusedTensors();
  }

 private:
  static constexpr size_t kNoNode = static_cast<size_t>(-1);

  int64_t BytesOf(TensorId id) const { return program_.tensor(id).bytes(); }

  // Starts to fetch the next groups, as many as fit in the limit on bytes in flight.
  void Prefetch() {
    while (fetched_ < groups_.size() && MayFetch(groups_[fetched_])) Fetch(groups_[fetched_++]);
  }

  bool MayFetch(const FetchGroup& group) const {
    if (now_ < group.earliest) return false;
    const int64_t most = group.at_end ? end_bytes_ : ahead_bytes_;
    if (fetching_bytes_ > 0 && fetching_bytes_ + group.to_load > most) return false;
    return std::ranges::all_of(group.residencies,
                               [&](const Residency& residency) { return IsOnHost(residency); });
  }

  // Whether the host has the newest value of the residency's tensor. That is so when its earlier
  // residencies, and those of slices or tensors that change the same memory, have ended and are
  // written back.
  bool IsOnHost(const Residency& residency) const {
    if (remaining_.at(residency.tensor).front() != &residency || IsEvicting(residency.tensor))
      return false;
    const auto overlaps = overlaps_.find(residency.tensor);
    if (overlaps == overlaps_.end()) return true;
    return std::ranges::none_of(overlaps->second, [&](TensorId other) {
      const auto left = remaining_.find(other);
      return left != remaining_.end() &&
             std::ranges::any_of(left->second, [&](const Residency* earlier) {
               return earlier->changes && earlier->first < residency.first;
             });
    });
  }

  // Whether some of the tensor's memory is being written back.
  bool IsEvicting(TensorId host) const {
    const auto overlaps = overlaps_.find(host);
    return std::ranges::any_of(evictions_, [&](const Eviction& store) {
      return store.host == host ||
             (overlaps != overlaps_.end() &&
              std::ranges::find(overlaps->second, store.host) != overlaps->second.end());
    });
  }

  void Fetch(const FetchGroup& group) {
    fetching_bytes_ += group.to_load;
    const Phase phase = PhaseFor(nodes_[group.first].phase);
    for (const Residency& residency : group.residencies) {
      if (!residency.loads) continue;
      if (slices_.Contains(residency.tensor)) EmitSlice(residency, phase);
      DeviceCopy& copy = copies_[residency.tensor];
      copy.staged = AddLike(residency.tensor, ".staged");
      Emit("copy_start", {residency.tensor}, copy.staged, phase, nodes_[residency.user].scope);
    }
  }

  // Emits the node that makes the slice; it must come before the copy that reads the slice.
  void EmitSlice(const Residency& residency, Phase phase) {
    Node node = nodes_[view_nodes_[static_cast<size_t>(residency.tensor)]];
    node.phase = phase;
    node.micro_step = nodes_[now_].micro_step;
    program_.mutable_nodes().push_back(std::move(node));
  }

  void Begin(const FetchGroup& group) {
    ++begun_;
    FinishEvictions(group.at_end ? end_bytes_ : ahead_bytes_);
    if (fetched_ < begun_) {
      for (const Residency& residency : group.residencies) FinishEvictionOf(residency.tensor);
      Fetch(groups_[fetched_++]);
    }
    fetching_bytes_ -= group.to_load;
    Prefetch();
    for (const Residency& residency : group.residencies) {
      if (!residency.loads) continue;
      DeviceCopy& copy = copies_.at(residency.tensor);
      copy.current = AddLike(residency.tensor, ".loaded", copy.staged);
      Emit("copy_done", {copy.staged, residency.tensor}, copy.current, nodes_[now_].phase,
           nodes_[residency.user].scope);
    }
  }

  void End(const Residency& residency) {
    remaining_.at(residency.tensor).pop_front();
    const auto copy = copies_.extract(residency.tensor);
    if (!residency.changes) return;
    const Phase phase = nodes_[now_].phase;
    const std::string& scope = nodes_[residency.user].scope;
    Emit("copy_start", {copy.mapped().current}, residency.tensor, phase, scope);
    evictions_.push_back({residency.tensor, copy.mapped().current, phase, scope});
    evicting_bytes_ += BytesOf(residency.tensor);
  }

  // Finishes the oldest evictions until at most `bytes` are in flight.
  void FinishEvictions(int64_t bytes) {
    while (!evictions_.empty() && evicting_bytes_ > bytes) FinishOldestEviction();
  }

  void FinishEvictionOf(TensorId host) {
    while (IsEvicting(host)) FinishOldestEviction();
  }

  void FinishOldestEviction() {
    const Eviction store = std::move(evictions_.front());
    evictions_.pop_front();
    evicting_bytes_ -= BytesOf(store.host);
    const TensorId stored = AddLike(store.host, ".stored", store.host);
    // Persistent, because it is a view of a persistent tensor; the node is therefore kept, although
    // no node of this program reads its output.
    program_.mutable_tensor(stored).persistent = true;
    Emit("copy_done", {store.host, store.value}, stored, PhaseFor(store.phase), store.scope);
  }

  // The phase of a copy that is emitted at the current node for a node of `phase`. A copy has the
  // phase of updates if and only if it is made for an update, because only updates read what an
  // update has written.
  Phase PhaseFor(Phase phase) const {
    const Phase here = nodes_[now_].phase;
    if (here == Phase::kForward) return here;  // in the forward pass nothing is updated
    if (phase == Phase::kUpdate) return phase;
    return here == Phase::kUpdate ? Phase::kBackward : here;
  }

  // Adds the node. Tensors on the host are replaced by their copies on the device.
  void Rewrite(Node& node) {
    if (node.op->view && IsOffloaded(node.outputs[0])) {
      // Other views are emitted again where they are read.
      if (ops::IsCollectiveDone(*node.op)) MakeView(node.outputs[0]);
      return;
    }
    for (TensorId& id : node.inputs) {
      if (IsOffloaded(id)) id = DeviceTensor(id);
    }
    for (TensorId& id : node.outputs) {
      if (!IsOffloaded(id)) continue;
      if (id != slices_.UnitOf(id)) {
        throw InternalError("'" + program_.tensor(program_.Root(id)).name +
                            "' lives on the host, but " + node.op->name + " changes a part of it");
      }
      DeviceCopy& copy = copies_[id];
      copy = {kNoTensor, AddLike(id, ".updated"), {}};
      id = copy.current;
    }
    program_.mutable_nodes().push_back(std::move(node));
    // Copies for this node's tensors take the node's scope.
    node.scope = program_.nodes().back().scope;
  }

  bool IsOffloaded(TensorId id) const {
    return id != kNoTensor && remaining_.contains(slices_.UnitOf(id));
  }

  // The tensor on the device that a node reads instead of `id`, a tensor on the host or a view of
  // one.
  TensorId DeviceTensor(TensorId id) {
    const TensorId unit = slices_.UnitOf(id);
    DeviceCopy& copy = copies_.at(unit);
    if (id == unit) return copy.current;
    const auto known = copy.views.find(id);
    if (known != copy.views.end()) return known->second;
    const size_t n = view_nodes_[static_cast<size_t>(id)];
    // If the collective ended before this residency, its result is the tensor itself.
    if (n != kNoNode && ops::IsCollectiveDone(*nodes_[n].op)) {
      return DeviceTensor(program_.tensor(id).alias->base);
    }
    return MakeView(id);
  }

  // Emits the node that makes a view of the tensor's current copy on the device. Returns the view.
  TensorId MakeView(TensorId id) {
    const TensorId base = DeviceTensor(program_.tensor(id).alias->base);
    Tensor view = program_.tensor(id);
    view.name = program_.FreshName(view.name + ".loaded");
    view.place = Place::kDevice;
    view.persistent = false;
    view.alias->base = base;
    const TensorId made = program_.AddTensor(std::move(view));
    if (const size_t n = view_nodes_[static_cast<size_t>(id)]; n != kNoNode) {
      Node node = nodes_[n];
      node.inputs[0] = base;
      node.outputs = {made};
      node.phase = nodes_[now_].phase;
      program_.mutable_nodes().push_back(std::move(node));
    }
    copies_.at(slices_.UnitOf(id)).views[id] = made;
    return made;
  }

  TensorId AddLike(TensorId host, const std::string& suffix, TensorId base = kNoTensor) {
    return builder_.Like(host, program_.tensor(host).name + suffix, base);
  }

  void Emit(std::string_view op, std::vector<TensorId> inputs, TensorId output, Phase phase,
            const std::string& scope) {
    builder_.set_phase(phase);
    builder_.set_scope(scope);
    builder_.set_micro_step(nodes_[now_].micro_step);
    builder_.EmitInto({output}, op, std::move(inputs));
  }

  Program& program_;
  graph::Builder builder_;
  const Slices slices_;
  const std::vector<FetchGroup>& groups_;
  const int64_t ahead_bytes_;
  // The limit on bytes in flight in the update at a step's end; 0 means one group at a time.
  int64_t end_bytes_ = 0;
  std::vector<Node> nodes_;         // the original nodes
  std::vector<size_t> view_nodes_;  // by original tensor: the node that makes the view
  size_t now_ = 0;                  // the index of the current original node
  size_t fetched_ = 0, begun_ = 0;  // the number of groups whose fetch has started, and the number
                                    // of groups that have begun
  int64_t fetching_bytes_ = 0;      // bytes of groups that are being fetched and have not begun
  // Maps a node to the residencies that end after it.
  std::map<size_t, std::vector<const Residency*>> ends_;
  std::map<TensorId, std::deque<const Residency*>>
      remaining_;  // maps a tensor to its residencies that have not ended
  std::map<TensorId, std::vector<TensorId>>
      overlaps_;                           // maps a slice to its tensor, and a tensor to its slices
  std::map<TensorId, DeviceCopy> copies_;  // maps a tensor on the host to its copy
  std::deque<Eviction> evictions_;         // in flight, the oldest first
  int64_t evicting_bytes_ = 0;             // bytes of `evictions_`
};

}  // namespace

void EmitTransfers(Program& program, const std::vector<FetchGroup>& groups,
                   std::optional<int64_t> ahead_bytes) {
  Transfers(program, groups, ahead_bytes.value_or(DefaultAhead(groups))).Run();
}

}  // namespace plimsoll::optim
