#include "optim/host_residency.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "graph/block.h"
#include "graph/companions.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "optim/spare_bytes.h"
#include "optim/update_units.h"

namespace plimsoll::optim {
namespace {

using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::TensorId;
using graph::Transfer;

struct Access {
  size_t node = 0;
  bool reads = false, writes = false;
  // Whether the residency of the previous access continues, even from another region:
  // this node ends a collective, or starts the sum of a gradient among ranks.
  bool continues = false;
  bool ends_collective = false;  // the node continues the residency because it ends a collective
};

// The accesses of each tensor, in the order of the nodes. A node that makes a view is no access,
// but the nodes that read the view are. The end of a collective is an access, since its tensors
// must be on the device until then.
using Accesses = std::map<TensorId, std::vector<Access>>;

Accesses FindAccesses(const Program& program, const std::vector<bool>& on_host) {
  Accesses accesses;
  const Slices slices(program);
  const auto add = [&](TensorId id, size_t node) -> Access* {
    if (!on_host[static_cast<size_t>(program.Root(id))]) return nullptr;
    std::vector<Access>& of_tensor = accesses[slices.UnitOf(id)];
    if (of_tensor.empty() || of_tensor.back().node != node) of_tensor.push_back({node});
    return &of_tensor.back();
  };
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const Node& node = program.nodes()[n];
    const bool ends = ops::IsCollectiveDone(*node.op);
    // Nodes that make views access nothing. Copies that the program already has stay unchanged.
    if ((node.op->view && !ends) || node.op->transfer == Transfer::kCopyStart) continue;
    for (TensorId id : graph::Present(node.inputs)) {
      Access* const access = add(id, n);
      if (access == nullptr) continue;
      const bool sums =
          ops::IsCollective(*node.op) && program.tensor(program.Root(id)).role == Role::kGradient;
      access->reads = true;
      access->continues = ends || sums;
      access->ends_collective = ends;
    }
    if (ends) continue;
    for (TensorId id : graph::Present(node.outputs)) {
      if (Access* const access = add(id, n)) access->writes = true;
    }
  }
  return accesses;
}

// A region: a range of nodes during which a tensor is not evicted (optim/host_residency.h).
struct Region {
  size_t first = 0, last = 0;
  bool at_end = false;
};

class Regions {
 public:
  Regions(const Program& program, const Accesses& accesses)
      : program_(program),
        units_(program),
        blocks_(program),
        update_begin_(graph::UpdateTail(program)) {
    FindRuns();
    FindGroups(accesses);
  }

  const Region& Of(size_t node) const { return regions_[of_nodes_[node]]; }
  // The number of regions that begin before the node's region. Regions of the update come last.
  size_t NumberOf(size_t node) const { return of_nodes_[node]; }
  bool AreNeighbours(size_t before, size_t node) const {
    if (before >= update_begin_) return false;
    return node >= update_begin_ || NumberOf(node) == NumberOf(before) + 1;
  }

  bool HasUpdates() const { return units_.count() > 0; }
  bool IsUpdate(size_t node) const { return units_.Of(node) != kNoUnit; }

  // The first of consecutive collectives of one op, whose tensors are fetched as one group. For a
  // node that is no such collective, the node itself.
  size_t FirstOfGathers(size_t node) const {
    const std::vector<Node>& nodes = program_.nodes();
    if (!ops::IsCollective(*nodes[node].op)) return node;
    while (node > 0 && nodes[node - 1].op == nodes[node].op) --node;
    return node;
  }

  // Whether the node belongs to a block. Its neighbours may belong to another block: the head's
  // update may come within the backward pass of a block.
  bool IsOfBlock(size_t node) const { return blocks_.Of(node) != graph::kNoBlock; }

  // The first node of the previous region. For a node in the first region, that region's first
  // node; for a node of the update at the end, the update's first node.
  size_t EarliestFor(size_t node) const {
    const size_t region = of_nodes_[node];
    if (node >= update_begin_) return update_begin_;
    return regions_[region == 0 ? 0 : region - 1].first;
  }

 private:
  void FindRuns() {
    graph::DirectedBlock last;
    const std::vector<bool> takes_in_sum = graph::ReadSummedGradients(program_);
    for (size_t n = 0; n < update_begin_; ++n) {
      const Node& node = program_.nodes()[n];
      graph::DirectedBlock here = blocks_.DirectedOf(n);
      // Collectives, the nodes that make shards for them, and updates do not end a block's region.
      const bool passing = graph::OnlyMoves(node) || graph::MakesParameter(program_, node) ||
                           node.phase == Phase::kUpdate || takes_in_sum[n];
      if (passing && n > 0) here = last;
      if (n == 0 || here != last) {
        regions_.push_back({.first = n});
      }
      regions_.back().last = n;
      of_nodes_.push_back(regions_.size() - 1);
      last = here;
    }
  }

  // Finds the regions of the update at the end. A node that belongs to no parameter is a separate
  // region.
  void FindGroups(const Accesses& accesses) {
    std::vector<int64_t> bytes(static_cast<size_t>(units_.count()),
                               0);  // by unit: bytes of its tensors on the host
    for (const auto& [tensor, of_tensor] : accesses) {
      std::set<int> counted;
      for (const Access& access : of_tensor) {
        const int unit = units_.Of(access.node);
        if (access.node < update_begin_ || unit == kNoUnit || !counted.insert(unit).second)
          continue;
        bytes[static_cast<size_t>(unit)] += program_.tensor(tensor).bytes();
      }
    }
    const int64_t largest = bytes.empty() ? 0 : std::ranges::max(bytes);
    std::vector<size_t> region_of(bytes.size(), kNoRegion);  // by unit: its region
    size_t group = kNoRegion;                                // the latest region
    int64_t in_group = 0;
    for (size_t n = update_begin_; n < program_.nodes().size(); ++n) {
      const int unit = units_.Of(n);
      if (unit == kNoUnit) {
        of_nodes_.push_back(regions_.size());
        regions_.push_back({.first = n, .last = n, .at_end = true});
        continue;
      }
      size_t& region = region_of[static_cast<size_t>(unit)];
      const int64_t more = bytes[static_cast<size_t>(unit)];
      if (region == kNoRegion && group != kNoRegion && in_group + more <= largest / 4) {
        region = group;
        in_group += more;
      } else if (region == kNoRegion) {
        region = group = regions_.size();
        in_group = more;
        regions_.push_back({.first = n, .at_end = true});
      }
      regions_[region].last = n;
      of_nodes_.push_back(region);
    }
  }

  static constexpr size_t kNoRegion = std::numeric_limits<size_t>::max();

  const Program& program_;
  const UpdateUnits units_;
  const graph::Blocks blocks_;
  const size_t update_begin_;
  std::vector<Region> regions_;
  std::vector<size_t> of_nodes_;  // by node: the index of its region in regions_
};

// The residencies of one tensor.
std::vector<Residency> ResidenciesOf(TensorId tensor, const std::vector<Access>& accesses,
                                     const Regions& regions) {
  std::vector<Residency> residencies;
  bool gathered = false;  // whether the previous access ended a collective
  for (const Access& access : accesses) {
    const size_t region = regions.NumberOf(access.node);
    const size_t before = residencies.empty() ? 0 : regions.NumberOf(residencies.back().last);
    // A shard that was gathered for the backward pass is kept for its update. If updates run within
    // the backward pass, this update comes when the gradient is summed, one or two regions later.
    const bool waits = gathered && regions.IsUpdate(access.node) && region - before <= 2;
    const bool same = !residencies.empty() && (region == before || access.continues || waits);
    gathered = access.ends_collective;
    if (!same) {
      residencies.push_back({.tensor = tensor,
                             .first = regions.FirstOfGathers(access.node),
                             .last = access.node,
                             .user = access.node,
                             .loads = access.reads});
    }
    residencies.back().last = access.node;
    residencies.back().changes = residencies.back().changes || access.writes;
  }
  return residencies;
}

// Merges residencies in neighbouring regions if no other residency begins between them. The update
// counts as the neighbour of the backward pass.
void Merge(std::vector<Residency>& residencies, const std::set<size_t>& begins,
           const Regions& regions) {
  std::vector<Residency> joined;
  for (const Residency& residency : residencies) {
    if (!joined.empty() && regions.AreNeighbours(joined.back().last, residency.first) &&
        *begins.upper_bound(joined.back().last) == residency.first) {
      joined.back().last = residency.last;
      joined.back().changes = joined.back().changes || residency.changes;
    } else {
      joined.push_back(residency);
    }
  }
  residencies = std::move(joined);
}

// Keeps the gradients that are completed last on the device until the update, as long as they fit
// below the peak of the program. Otherwise they would be evicted and fetched again.
void KeepLastGradients(const Program& program, const Regions& regions,
                       const std::set<TensorId>& sliced,
                       std::map<TensorId, std::vector<Residency>>& by_tensor) {
  std::vector<std::vector<Residency>*> order;
  for (auto& [tensor, residencies] : by_tensor) {
    if (program.tensor(tensor).role != Role::kGradient || sliced.contains(tensor)) continue;
    if (residencies.size() < 2 || !regions.Of(residencies.back().first).at_end) continue;
    if (!regions.Of(residencies[residencies.size() - 2].first).at_end)
      order.push_back(&residencies);
  }
  if (order.empty()) return;
  std::ranges::stable_sort(order, std::greater(), [](const auto* residencies) {
    return (*residencies)[residencies->size() - 2].last;
  });
  std::vector<int64_t> spare = SpareBytes(program);
  for (std::vector<Residency>* residencies : order) {
    const Residency update = residencies->back();
    Residency& before = (*residencies)[residencies->size() - 2];
    const int64_t bytes = program.tensor(update.tensor).bytes();
    const std::span between(spare.begin() + static_cast<ptrdiff_t>(before.last),
                            spare.begin() + static_cast<ptrdiff_t>(update.last) + 1);
    if (std::ranges::min(between) < bytes) continue;
    for (int64_t& left : between) left -= bytes;
    before.last = update.last;
    before.changes = before.changes || update.changes;
    residencies->pop_back();
  }
}

// At the end of a step, the tensors of a region are fetched and evicted together.
void WidenToGroup(std::vector<Residency>& residencies, const Regions& regions) {
  for (size_t i = 0; i < residencies.size(); ++i) {
    const Region& region = regions.Of(residencies[i].first);
    if (!region.at_end) continue;
    const size_t from = i == 0 ? 0 : residencies[i - 1].last + 1;
    const size_t to = i + 1 < residencies.size() ? residencies[i + 1].first - 1 : region.last;
    residencies[i].first = std::max(region.first, from);
    residencies[i].last = std::max(residencies[i].last, std::min(region.last, to));
  }
}

}  // namespace

Slices::Slices(const Program& program) : program_(program) {
  slices_.resize(program.tensors().size(), false);
  for (const Node& node : program.nodes()) {
    if (node.op->name == "slice") slices_[static_cast<size_t>(node.outputs[0])] = true;
  }
}

TensorId Slices::UnitOf(TensorId id) const {
  while (program_.tensor(id).alias && !Contains(id)) id = program_.tensor(id).alias->base;
  return id;
}

bool HasResidencies(const Program& program, const std::vector<bool>& on_host) {
  return !FindAccesses(program, on_host).empty();
}

std::vector<FetchGroup> FindResidencies(const Program& program, const std::vector<bool>& on_host) {
  const Accesses accesses = FindAccesses(program, on_host);
  const Regions regions(program, accesses);
  const bool updates = regions.HasUpdates();
  std::map<TensorId, std::vector<Residency>> by_tensor;
  std::set<size_t> begins;
  std::set<TensorId> sliced;
  for (const auto& [tensor, of_tensor] : accesses) {
    if (const auto& alias = program.tensor(tensor).alias) sliced.insert(alias->base);
    by_tensor[tensor] = ResidenciesOf(tensor, of_tensor, regions);
    for (const Residency& residency : by_tensor[tensor]) begins.insert(residency.first);
  }
  for (auto& [tensor, residencies] : by_tensor) Merge(residencies, begins, regions);
  if (updates) KeepLastGradients(program, regions, sliced, by_tensor);
  std::map<size_t, FetchGroup> groups;  // maps the first node to the group
  for (auto& [tensor, residencies] : by_tensor) {
    WidenToGroup(residencies, regions);
    const bool in_slices = sliced.contains(tensor);  // the tensor's slices are read later
    if (updates && !in_slices && program.tensor(tensor).role == Role::kGradient) {
      residencies.back().changes = false;
    }
    for (const Residency& residency : residencies) {
      FetchGroup& group = groups[residency.first];
      const Region& region = regions.Of(residency.first);
      group.first = residency.first;
      group.earliest = regions.EarliestFor(residency.first);
      group.in_block = group.in_block || regions.IsOfBlock(residency.user);
      group.at_end = region.at_end;
      const int64_t bytes = program.tensor(residency.tensor).bytes();
      group.bytes += bytes;
      if (residency.loads) group.to_load += bytes;
      group.residencies.push_back(residency);
    }
  }
  std::vector<FetchGroup> in_order;
  for (auto& [first, group] : groups) in_order.push_back(std::move(group));
  return in_order;
}

}  // namespace plimsoll::optim
