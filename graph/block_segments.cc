#include "graph/block_segments.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "graph/block.h"
#include "graph/companions.h"

namespace plimsoll::graph {
namespace {

constexpr int kUpdateSegment = std::numeric_limits<int>::max();

// Numbers the segments (graph/step_passes.h) of all micro-steps.
class Segments {
 public:
  explicit Segments(const Program& program)
      : program_(program),
        blocks_(program),
        companion_(AddToCarriedGradients(program)),
        of_nodes_(program.nodes().size(), 0) {
    for (size_t at = 0; at < program.nodes().size(); ++at) {
      const Node& node = program.nodes()[at];
      if (OnlyMoves(node) || MakesParameter(program, node)) companion_[at] = true;
    }
    std::map<int32_t, std::vector<size_t>> micro_steps;
    for (size_t at = 0; at < program.nodes().size(); ++at) {
      micro_steps[program.nodes()[at].micro_step].push_back(at);
    }
    for (const auto& [number, nodes] : micro_steps) NumberIn(nodes);
  }

  // Nodes that compute a part of a block must not leave their segment.
  Stages Run() {
    std::vector<bool> in_block;
    for (size_t at = 0; at < of_nodes_.size(); ++at) {
      in_block.push_back(blocks_.Of(at) != kNoBlock && !companion_[at]);
    }
    return {std::move(of_nodes_), std::move(in_block)};
  }

 private:
  // Blocks that make one segment of a micro-step, with the positions of its first and last node.
  struct Range {
    size_t first, last;
    bool backward;  // the direction of the first node
    std::vector<int> blocks;
  };

  // A key is a direction and a block. Segments of two micro-steps correspond if their keys are
  // equal. The key of nodes outside blocks has, instead of a block, the number of the last segment
  // of blocks before these nodes.
  struct Key {
    DirectedBlock at;
    int behind = 0;
    auto operator<=>(const Key&) const = default;
  };

  // The ranges of a micro-step's blocks, in its order.
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

  // Numbers the segments of a micro-step. A segment that only later micro-steps have gets the
  // number of the segment before it.
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
    int number = 0, behind = -1;  // the current segment, and the last segment of blocks
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

  // Companions get the segment of the node before them. Companions that wait for a transfer get the
  // segment of the next node, even if that node makes the data of another transfer.
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
      if (!companion_[at] || MakesParameter(program_, node)) {
        number = of_nodes_[at];
      } else if (IsDone(node.op->transfer)) {
        of_nodes_[at] = number;
      }
    }
  }

  const Program& program_;
  const Blocks blocks_;
  std::vector<bool> companion_;  // by node: whether it is a companion (graph/companions.h)
  std::vector<int> of_nodes_;
  std::map<Key, int> numbers_;
  int count_ = -1;  // the last number that a segment got
};

}  // namespace

Stages BlockSegments(const Program& program) { return Segments(program).Run(); }

}  // namespace plimsoll::graph
