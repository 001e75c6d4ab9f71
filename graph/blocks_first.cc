#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "graph/block.h"
#include "graph/companions.h"
#include "graph/step_passes.h"

namespace plimsoll::graph {
namespace {

constexpr int kUpdateSegment = std::numeric_limits<int>::max();

// Numbers the segments of all micro-steps.
class Segments {
 public:
  explicit Segments(const Program& program)
      : program_(program),
        blocks_(program),
        companion_(AddToCarriedGradients(program)),
        of_nodes_(program.nodes().size(), 0) {
    for (size_t at = 0; at < program.nodes().size(); ++at) {
      if (OnlyMoves(program.nodes()[at])) companion_[at] = true;
    }
    std::map<int32_t, std::vector<size_t>> micro_steps;
    for (size_t at = 0; at < program.nodes().size(); ++at) {
      micro_steps[program.nodes()[at].micro_step].push_back(at);
    }
    for (const auto& [number, nodes] : micro_steps) NumberIn(nodes);
    micro_steps_ = micro_steps.size();
  }

  size_t micro_steps() const { return micro_steps_; }
  int Of(size_t node) const { return of_nodes_[node]; }
  // Whether it computes a part of a block.
  bool InBlock(size_t node) const { return blocks_.Of(node) != kNoBlock && !companion_[node]; }

 private:
  // Blocks that make one segment of a micro-step, and the places of their first and last node.
  struct Range {
    size_t first, last;
    bool backward;  // in which direction the first node is
    std::vector<int> blocks;
  };

  // What says which segments of two micro-steps correspond: direction and block; outside of
  // blocks, the number of the segment of blocks before.
  struct Key {
    DirectedBlock at;
    int behind = 0;
    auto operator<=>(const Key&) const = default;
  };

  // In the order of a micro-step.
  std::vector<Range> RangesOf(const std::vector<size_t>& computing) const {
    std::map<DirectedBlock, Range> by_block;
    for (size_t i = 0; i < computing.size(); ++i) {
      const DirectedBlock at = blocks_.DirectedOf(computing[i]);
      if (at.block == kNoBlock) continue;
      by_block.try_emplace(at, Range{i, i, at.backward, {at.block}}).first->second.last = i;
    }
    std::vector<Range> ranges;
    for (auto& [at, range] : by_block) ranges.push_back(std::move(range));
    std::ranges::sort(ranges, {}, &Range::first);
    std::vector<Range> merged;
    for (Range& range : ranges) {
      if (merged.empty() || range.first > merged.back().last) {
        merged.push_back(std::move(range));
        continue;
      }
      merged.back().last = std::max(merged.back().last, range.last);
      merged.back().blocks.push_back(range.blocks.front());
    }
    return merged;
  }

  // A segment that only later micro-steps have belongs to the one before it.
  void NumberIn(const std::vector<size_t>& micro_step) {
    const bool first = numbers_.empty();
    const auto number_of = [&](const std::vector<Key>& keys, int before) {
      for (const Key& key : keys) {
        if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
      }
      if (first) ++count_;
      for (const Key& key : keys) numbers_[key] = first ? count_ : before;
      return numbers_.at(keys.front());
    };

    std::vector<size_t> computing;
    for (size_t at : micro_step) {
      const bool updates = program_.nodes()[at].phase == Phase::kUpdate;
      if (!companion_[at] && !updates) computing.push_back(at);
    }
    const std::vector<Range> ranges = RangesOf(computing);
    auto range = ranges.begin();
    int number = 0, behind = -1;  // the segment, and the last one of blocks
    for (size_t i = 0; i < computing.size(); ++i) {
      if (range != ranges.end() && i > range->last) ++range;
      if (range == ranges.end() || i < range->first) {
        number = number_of({{blocks_.DirectedOf(computing[i]), behind}}, number);
      } else if (i == range->first) {
        std::vector<Key> keys;
        for (int block : range->blocks) keys.push_back({{range->backward, block}});
        behind = number = number_of(keys, number);
      }
      of_nodes_[computing[i]] = number;
    }
    NumberCompanions(micro_step);
  }

  // They go with the node before, but what waits for a transfer goes with the node that follows.
  void NumberCompanions(const std::vector<size_t>& micro_step) {
    int number = 0;
    for (size_t at : micro_step) {
      if (program_.nodes()[at].phase == Phase::kUpdate) {
        of_nodes_[at] = kUpdateSegment;
      } else if (companion_[at]) {
        of_nodes_[at] = number;
      } else {
        number = of_nodes_[at];
      }
    }
    for (size_t i = micro_step.size(); i-- > 0;) {
      const size_t at = micro_step[i];
      const Node& node = program_.nodes()[at];
      if (node.phase == Phase::kUpdate) continue;
      if (!companion_[at]) {
        number = of_nodes_[at];
      } else if (IsDone(node.op->transfer)) {
        of_nodes_[at] = number;
      }
    }
  }

  const Program& program_;
  const Blocks blocks_;
  std::vector<bool> companion_;  // by node (graph/companions.h)
  std::vector<int> of_nodes_;
  std::map<Key, int> numbers_;
  int count_ = -1;  // the last number given
  size_t micro_steps_ = 0;
};

// What micro-steps do to carried tensors keeps its order if no node has a smaller segment than the
// nodes before it that it has to follow: of its own micro-step all, of others those that write what
// it reads or writes, or read what it writes.
class Order {
 public:
  explicit Order(const Program& program)
      : program_(program),
        segments_(program),
        written_(program.tensors().size(), 0),
        read_(program.tensors().size(), 0) {
    std::map<int32_t, int> reached;  // by micro-step
    for (size_t at = 0; at < program.nodes().size(); ++at) {
      const Node& node = program.nodes()[at];
      int& segment = reached[node.micro_step];
      segment = std::max(segment, segments_.Of(at));
      if (const int least = LeastSegment(node); least > segment) {
        if (culprit_ == kNoTensor) culprit_ = last_cause_;
        segment = least;
      }
      torn_ = torn_ || (segment > segments_.Of(at) && segments_.InBlock(at));
      Note(node, segment);
      of_nodes_.push_back(segment);
    }
  }

  size_t micro_steps() const { return segments_.micro_steps(); }
  bool torn() const { return torn_ && culprit_ != kNoTensor; }
  // The first carried tensor whose order moves a node from its segment.
  TensorId culprit() const { return culprit_; }

  std::vector<size_t> Sorted() const {
    std::vector<size_t> order(of_nodes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t at) {
      return std::pair(of_nodes_[at], program_.nodes()[at].micro_step);
    });
    return order;
  }

 private:
  // A view neither reads nor writes: what uses it does. The second half of a transfer is a view in
  // form, but the bytes are there only behind it.
  static bool Accesses(const Node& node) {
    return !node.op->view || node.op->transfer != Transfer::kNone;
  }

  // The root of a carried tensor; kNoTensor for others, which only one micro-step uses.
  TensorId Carried(TensorId id) const {
    if (id == kNoTensor) return kNoTensor;
    const TensorId root = program_.Root(id);
    return program_.tensor(root).persistent ? root : kNoTensor;
  }

  int LeastSegment(const Node& node) {
    int least = 0;
    if (!Accesses(node)) return least;
    const auto follow = [&](TensorId root, int segment) {
      if (segment <= least) return;
      least = segment;
      last_cause_ = root;
    };
    for (TensorId id : node.inputs) {
      if (const TensorId root = Carried(id); root != kNoTensor) follow(root, written_[root]);
    }
    for (TensorId id : node.outputs) {
      if (const TensorId root = Carried(id); root != kNoTensor) {
        follow(root, std::max(written_[root], read_[root]));
      }
    }
    return least;
  }

  void Note(const Node& node, int segment) {
    if (!Accesses(node)) return;
    for (TensorId id : node.inputs) {
      if (const TensorId root = Carried(id); root != kNoTensor) {
        read_[root] = std::max(read_[root], segment);
      }
    }
    for (TensorId id : node.outputs) {
      if (const TensorId root = Carried(id); root != kNoTensor) {
        written_[root] = std::max(written_[root], segment);
      }
    }
  }

  const Program& program_;
  const Segments segments_;
  std::vector<int> written_, read_;  // by carried tensor: the last segment that does so
  std::vector<int> of_nodes_;
  TensorId culprit_ = kNoTensor, last_cause_ = kNoTensor;
  bool torn_ = false;
};

}  // namespace

PassResult BlocksFirst::Run(Program& program) {
  const Order order(program);
  if (order.micro_steps() < 2) return Refused("one micro-step");
  if (order.torn()) {
    return Refused("each micro-step changes '" + program.tensor(order.culprit()).name +
                   "' in several places, as where weights are tied; in another order it "
                   "would have other bits");
  }
  const std::vector<size_t> sorted = order.Sorted();
  if (std::ranges::is_sorted(sorted)) return Refused("in this order already");
  std::vector<Node> old = std::exchange(program.mutable_nodes(), {});
  for (size_t at : sorted) program.mutable_nodes().push_back(std::move(old[at]));
  return {true, std::to_string(order.micro_steps()) + " micro-steps go block by block"};
}

}  // namespace plimsoll::graph
