// Which stage of a pipeline computes each node of a training program, and what stages need of one
// another. Stages are runs of whole blocks (graph/block.h). What comes before the first block
// belongs to the first stage, what comes after the last block to the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"

namespace plimsoll::parallel {

// What crosses the cut between a stage and the next one.
struct StageCut {
  graph::TensorId forward = graph::kNoTensor;   // what blocks give to the next one
  graph::TensorId backward = graph::kNoTensor;  // its gradient; kNoTensor in a forward program
};

class StageMap {
 public:
  // Besides the number of a stage:
  // - each stage that reads the results computes the node, which needs no other stage and draws
  //   alike on all of them: positions, masks, views of what is carried;
  static constexpr int64_t kFree = -1;
  // - all stages compute the node of the update: the gate, clipping, counters;
  static constexpr int64_t kAll = -2;
  // - the first and the last stage both have a table, which embeds tokens and predicts them, each
  //   its part of the gradient; and both update it, by the sum of the parts.
  static constexpr int64_t kEnds = -3;

  // `blocks`: the number of blocks of each stage. UserError, naming tensors, where stages would
  // need more of each other than one activation and its gradient.
  StageMap(const graph::Program& program, std::span<const int64_t> blocks);

  int64_t stages() const { return stages_; }
  // The stage of a node: a number, kFree, kAll or kEnds.
  int64_t Of(size_t node) const { return of_nodes_[node]; }
  // The stage that writes a tensor, or that a carried tensor belongs to; kAll: none in particular.
  int64_t OfTensor(graph::TensorId id) const;
  // Of those of kEnds, in the order of the model.
  std::vector<graph::TensorId> OfEnds(graph::Role role) const;
  bool IsEnd(int64_t stage) const { return stage == 0 || stage + 1 == stages_; }
  // The stage that counts a gradient in norms: of kEnds the first one.
  int64_t Counting(graph::TensorId id) const { return OfTensor(id) == kEnds ? 0 : OfTensor(id); }
  // Whether the node, a norm, reads gradients of several stages.
  bool Joins(size_t node) const { return joins_[node]; }
  // By stage: the nodes that it runs, the free ones that it needs among them.
  std::vector<bool> NodesOf(int64_t stage) const;
  // After the stage, which is not the last one.
  const StageCut& cut(int64_t stage) const { return cuts_[static_cast<size_t>(stage)]; }

 private:
  class Finder;

  const graph::Program& program_;
  int64_t stages_;
  std::vector<int64_t> of_nodes_, of_tensors_;  // the latter by root
  std::vector<bool> joins_;
  std::vector<StageCut> cuts_;
};

}  // namespace plimsoll::parallel
