// Finds which stage of a pipeline computes each node of a training program, and which tensors
// stages need from one another. A stage is a sequence of complete, consecutive blocks
// (graph/block.h). Nodes before the first block belong to the first stage, nodes after the last
// block to the last stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"

namespace plimsoll::parallel {

// The tensors that cross the cut between a stage and the next one.
struct StageCut {
  graph::TensorId forward = graph::kNoTensor;  // the output of the stage's last block
  // the gradient of `forward`; kNoTensor in a forward program
  graph::TensorId backward = graph::kNoTensor;
};

class StageMap {
 public:
  // Values that Of() returns besides the number of a stage:
  // - kFree: each stage that reads the node's results computes the node, because the node needs no
  //   other stage and draws the same numbers on all of them: positions, masks, views of carried
  //   tensors;
  static constexpr int64_t kFree = -1;
  // - kAll: all stages compute the node, which belongs to the update: the gate, clipping, counters;
  static constexpr int64_t kAll = -2;
  // - kEnds: the first and the last stage both have the node's table, which embeds tokens and
  //   predicts them. Each computes its part of the table's gradient, and both update the table with
  //   the sum of the parts.
  static constexpr int64_t kEnds = -3;

  // `blocks`: the number of blocks of each stage. Throws UserError, naming tensors, if a stage
  // would need more of another stage than one activation and its gradient.
  StageMap(const graph::Program& program, std::span<const int64_t> blocks);

  int64_t stages() const { return stages_; }
  // The stage of a node: its number, kFree, kAll or kEnds.
  int64_t Of(size_t node) const { return of_nodes_[node]; }
  // The stage that writes a tensor, or that a carried tensor belongs to; kAll if it belongs to no
  // particular stage.
  int64_t OfTensor(graph::TensorId id) const;
  // The tensors with this role whose stage is kEnds, in the order of the model.
  std::vector<graph::TensorId> OfEnds(graph::Role role) const;
  bool IsEnd(int64_t stage) const { return stage == 0 || stage + 1 == stages_; }
  // The stage that counts a gradient in norms: the first stage if the gradient's stage is kEnds.
  int64_t Counting(graph::TensorId id) const { return OfTensor(id) == kEnds ? 0 : OfTensor(id); }
  // Whether the node is a norm that reads gradients of several stages.
  bool Joins(size_t node) const { return joins_[node]; }
  // For each node, whether the stage runs the node; includes the kFree nodes that the stage needs.
  std::vector<bool> NodesOf(int64_t stage) const;
  // The cut after the stage, which must not be the last stage.
  const StageCut& cut(int64_t stage) const { return cuts_[static_cast<size_t>(stage)]; }

 private:
  class Finder;

  const graph::Program& program_;
  int64_t stages_;
  // The stages of nodes, and of tensors that own memory.
  std::vector<int64_t> of_nodes_, of_tensors_;
  std::vector<bool> joins_;
  std::vector<StageCut> cuts_;
};

}  // namespace plimsoll::parallel
