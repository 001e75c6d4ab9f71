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

// A selected tensor on the device.
struct Here {
  TensorId staged = kNoTensor;   // its copy, while it arrives
  TensorId current = kNoTensor;  // what nodes read: the copy, and after a change the new value
  std::map<TensorId, TensorId> views;  // of `current`, by view of the tensor on the host
};

// A tensor on its way back.
struct Store {
  TensorId host = kNoTensor;
  TensorId value = kNoTensor;
  Phase phase = Phase::kForward;
  std::string scope;
};

// Twice the largest group in a block: see optim/host_parameters.h.
int64_t DefaultAhead(const std::vector<StayGroup>& groups) {
  int64_t largest = 0;
  for (const StayGroup& group : groups) {
    if (group.in_block && !group.at_end) largest = std::max(largest, group.bytes);
  }
  return 2 * largest;
}

// Below the peak of the program, in the update at its end, beside stays that last until then.
int64_t SpareAtEnd(const Program& program, const std::vector<StayGroup>& groups) {
  const size_t begin = graph::UpdateTail(program);
  const std::vector<int64_t> spare = SpareBytes(program);
  if (begin >= spare.size()) return 0;
  int64_t bytes = *std::min_element(spare.begin() + static_cast<ptrdiff_t>(begin), spare.end());
  for (const StayGroup& group : groups) {
    for (const Stay& stay : group.stays) {
      if (stay.first < begin && stay.last >= begin) bytes -= program.tensor(stay.tensor).bytes();
    }
  }
  return bytes;
}

class Transfers {
 public:
  Transfers(Program& program, const std::vector<StayGroup>& groups, int64_t ahead_bytes)
      : program_(program),
        builder_(program),
        slices_(program),
        groups_(groups),
        ahead_bytes_(ahead_bytes) {
    builder_.set_made_by("host_parameters");
    bool stores_at_end = false;
    int64_t largest_at_end = 0;
    for (const StayGroup& group : groups) {
      stores_at_end =
          stores_at_end || (group.at_end && std::ranges::any_of(group.stays, &Stay::changes));
      if (group.at_end) largest_at_end = std::max(largest_at_end, group.bytes);
      if (group.at_end && group.in_block) end_bytes_ = std::max(end_bytes_, group.bytes);
      for (const Stay& stay : group.stays) {
        ends_[stay.last].push_back(&stay);
        left_[stay.tensor].push_back(&stay);
        if (slices_.Contains(stay.tensor)) overlaps_[stay.tensor] = {program.Root(stay.tensor)};
      }
    }
    if (end_bytes_ > 0) {
      // Beside what is on its way stands the group that is computed with.
      const int64_t spare = SpareAtEnd(program, groups) - largest_at_end;
      end_bytes_ = std::max(end_bytes_, stores_at_end ? spare / 2 : spare);
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
    for (at_ = 0; at_ < nodes_.size(); ++at_) {
      if (begun_ < groups_.size() && groups_[begun_].first == at_) {
        Begin(groups_[begun_]);
      } else {
        LoadAhead();
      }
      Move(nodes_[at_]);
      const auto ends = ends_.find(at_);
      if (ends == ends_.end()) continue;
      for (const Stay* stay : ends->second) End(*stay);
    }
    if (!nodes_.empty()) at_ = nodes_.size() - 1;
    FinishStores(0);
    program_.DropUnusedTensors();
  }

 private:
  static constexpr size_t kNoNode = static_cast<size_t>(-1);

  int64_t BytesOf(TensorId id) const { return program_.tensor(id).bytes(); }

  // The first group that has not started to load, where it may and there is room for it.
  void LoadAhead() {
    while (loaded_ < groups_.size() && MayLoad(groups_[loaded_])) Load(groups_[loaded_++]);
  }

  bool MayLoad(const StayGroup& group) const {
    if (at_ < group.earliest) return false;
    const int64_t most = group.at_end ? end_bytes_ : ahead_bytes_;
    if (under_way_ > 0 && under_way_ + group.to_load > most) return false;
    return std::ranges::all_of(group.stays, [&](const Stay& stay) { return IsAway(stay); });
  }

  // Whether the tensor's stays before this one are over and stored, and those that change the same
  // memory.
  bool IsAway(const Stay& stay) const {
    if (left_.at(stay.tensor).front() != &stay || IsStoring(stay.tensor)) return false;
    const auto overlaps = overlaps_.find(stay.tensor);
    if (overlaps == overlaps_.end()) return true;
    return std::ranges::none_of(overlaps->second, [&](TensorId other) {
      const auto left = left_.find(other);
      return left != left_.end() && std::ranges::any_of(left->second, [&](const Stay* earlier) {
               return earlier->changes && earlier->first < stay.first;
             });
    });
  }

  // Whether some of the tensor's memory is under way to the host.
  bool IsStoring(TensorId host) const {
    const auto overlaps = overlaps_.find(host);
    return std::ranges::any_of(stores_, [&](const Store& store) {
      return store.host == host ||
             (overlaps != overlaps_.end() &&
              std::ranges::find(overlaps->second, store.host) != overlaps->second.end());
    });
  }

  void Load(const StayGroup& group) {
    under_way_ += group.to_load;
    const Phase phase = PhaseFor(nodes_[group.first].phase);
    for (const Stay& stay : group.stays) {
      if (!stay.loads) continue;
      if (slices_.Contains(stay.tensor)) EmitSlice(stay, phase);
      Here& here = here_[stay.tensor];
      here.staged = AddLike(stay.tensor, ".staged");
      Emit("copy_start", {stay.tensor}, here.staged, phase, nodes_[stay.user].scope);
    }
  }

  // The node that makes the slice stands before the copy of it.
  void EmitSlice(const Stay& stay, Phase phase) {
    Node node = nodes_[view_nodes_[static_cast<size_t>(stay.tensor)]];
    node.phase = phase;
    node.micro_step = nodes_[at_].micro_step;
    program_.mutable_nodes().push_back(std::move(node));
  }

  void Begin(const StayGroup& group) {
    ++begun_;
    FinishStores(group.at_end ? end_bytes_ : ahead_bytes_);
    if (loaded_ < begun_) {
      for (const Stay& stay : group.stays) FinishStoreOf(stay.tensor);
      Load(groups_[loaded_++]);
    }
    under_way_ -= group.to_load;
    LoadAhead();
    for (const Stay& stay : group.stays) {
      if (!stay.loads) continue;
      Here& here = here_.at(stay.tensor);
      here.current = AddLike(stay.tensor, ".loaded", here.staged);
      Emit("copy_done", {here.staged, stay.tensor}, here.current, nodes_[at_].phase,
           nodes_[stay.user].scope);
    }
  }

  void End(const Stay& stay) {
    left_.at(stay.tensor).pop_front();
    const auto here = here_.extract(stay.tensor);
    if (!stay.changes) return;
    const Phase phase = nodes_[at_].phase;
    const std::string& scope = nodes_[stay.user].scope;
    Emit("copy_start", {here.mapped().current}, stay.tensor, phase, scope);
    stores_.push_back({stay.tensor, here.mapped().current, phase, scope});
    storing_ += BytesOf(stay.tensor);
  }

  // Finishes the oldest ones until at most so many bytes are on their way.
  void FinishStores(int64_t bytes) {
    while (!stores_.empty() && storing_ > bytes) FinishFirstStore();
  }

  void FinishStoreOf(TensorId host) {
    while (IsStoring(host)) FinishFirstStore();
  }

  void FinishFirstStore() {
    const Store store = std::move(stores_.front());
    stores_.pop_front();
    storing_ -= BytesOf(store.host);
    const TensorId stored = AddLike(store.host, ".stored", store.host);
    // This view of a carried tensor is carried, and so a result: no node of this program reads it,
    // yet the node must stay.
    program_.mutable_tensor(stored).persistent = true;
    Emit("copy_done", {store.host, store.value}, stored, PhaseFor(store.phase), store.scope);
  }

  // The phase of a copy that is emitted here for a node of that phase: an update's copies belong to
  // the update, and no others do, since only updates read what an update has written.
  Phase PhaseFor(Phase phase) const {
    const Phase here = nodes_[at_].phase;
    if (here == Phase::kForward) return here;  // in which nothing is updated yet
    if (phase == Phase::kUpdate) return phase;
    return here == Phase::kUpdate ? Phase::kBackward : here;
  }

  // Adds the node, which then works on what stands here.
  void Move(Node& node) {
    if (node.op->view && IsAbout(node.outputs[0])) {
      // Others are made again where they are read.
      if (ops::IsCollectiveDone(*node.op)) MakeView(node.outputs[0]);
      return;
    }
    for (TensorId& id : node.inputs) {
      if (IsAbout(id)) id = Read(id);
    }
    for (TensorId& id : node.outputs) {
      if (!IsAbout(id)) continue;
      if (id != slices_.StayingOf(id)) {
        throw InternalError("'" + program_.tensor(program_.Root(id)).name +
                            "' lives on the host, but " + node.op->name + " changes a part of it");
      }
      Here& here = here_[id];
      here = {kNoTensor, AddLike(id, ".updated"), {}};
      id = here.current;
    }
    program_.mutable_nodes().push_back(std::move(node));
    // Copies for this node's tensors take its scope.
    node.scope = program_.nodes().back().scope;
  }

  bool IsAbout(TensorId id) const {
    return id != kNoTensor && left_.contains(slices_.StayingOf(id));
  }

  // What to read for a selected tensor or a view of it.
  TensorId Read(TensorId id) {
    const TensorId staying = slices_.StayingOf(id);
    Here& here = here_.at(staying);
    if (id == staying) return here.current;
    const auto known = here.views.find(id);
    if (known != here.views.end()) return known->second;
    const size_t n = view_nodes_[static_cast<size_t>(id)];
    // What ranks have done together before this stay is the tensor itself.
    if (n != kNoNode && ops::IsCollectiveDone(*nodes_[n].op)) {
      return Read(program_.tensor(id).alias->base);
    }
    return MakeView(id);
  }

  // A view of a selected tensor as that stands here, with the node that makes it.
  TensorId MakeView(TensorId id) {
    const TensorId base = Read(program_.tensor(id).alias->base);
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
      node.phase = nodes_[at_].phase;
      program_.mutable_nodes().push_back(std::move(node));
    }
    here_.at(slices_.StayingOf(id)).views[id] = made;
    return made;
  }

  TensorId AddLike(TensorId host, const std::string& suffix, TensorId base = kNoTensor) {
    return builder_.Like(host, program_.tensor(host).name + suffix, base);
  }

  void Emit(std::string_view op, std::vector<TensorId> inputs, TensorId output, Phase phase,
            const std::string& scope) {
    builder_.set_phase(phase);
    builder_.set_scope(scope);
    builder_.set_micro_step(nodes_[at_].micro_step);
    builder_.EmitInto({output}, op, std::move(inputs));
  }

  Program& program_;
  graph::Builder builder_;
  const Slices slices_;
  const std::vector<StayGroup>& groups_;
  const int64_t ahead_bytes_;
  int64_t end_bytes_ = 0;           // the same at the end of a step; 0: one group at a time
  std::vector<Node> nodes_;         // the original ones
  std::vector<size_t> view_nodes_;  // by original tensor: the node that makes the view
  size_t at_ = 0;                   // the original node that is due
  size_t loaded_ = 0, begun_ = 0;   // how many groups have
  int64_t under_way_ = 0;           // bytes of groups that are loaded and have not begun
  std::map<size_t, std::vector<const Stay*>> ends_;     // by the node behind which they end
  std::map<TensorId, std::deque<const Stay*>> left_;    // of a tensor, those that have not ended
  std::map<TensorId, std::vector<TensorId>> overlaps_;  // a slice's whole, a whole's slices
  std::map<TensorId, Here> here_;                       // by tensor on the host
  std::deque<Store> stores_;                            // under way, the oldest first
  int64_t storing_ = 0;                                 // their bytes
};

}  // namespace

void EmitTransfers(Program& program, const std::vector<StayGroup>& groups,
                   std::optional<int64_t> ahead_bytes) {
  Transfers(program, groups, ahead_bytes.value_or(DefaultAhead(groups))).Run();
}

}  // namespace plimsoll::optim
