// train.blocks_first: all micro-steps of a program go through a block before any of them goes
// through the next one. What a block needs of its weights, and the gradients of these, are then
// needed in two places of the program instead of two places of every micro-step:
//
//   one micro-step after another         blocks first
//   forward    block.0 block.1           forward    block.0   forward 1  block.0
//   backward   block.1 block.0           forward    block.1   forward 1  block.1
//   forward 1  block.0 block.1           backward   block.1   backward 1 block.1
//   backward 1 block.1 block.0           backward   block.0   backward 1 block.0
//   update                               update
#pragma once

#include "graph/pass.h"

namespace plimsoll::graph {

// Runs on a program of several micro-steps (graph/micro_steps.h), before updates move. The nodes of
// a micro-step keep their order, which is cut into segments:
//
// - the nodes of one block (graph/block.h) and direction, from the first to the last one; backward
//   and recomputed nodes have one direction. Where blocks overlap, as those that are recomputed
//   together, they are one segment;
// - the nodes between two such segments;
// - the update.
//
// Views, halves of transfers, and what takes in their results go with the nodes around them.
// Segments of the micro-steps correspond by block and direction, however many nodes they have, and
// nodes are ordered by segment, and within a segment by micro-step.
//
// No number changes: what micro-steps do to a carried tensor (add to a gradient, read what another
// has written) keeps its order. Where this order cannot be kept without tearing a block from its
// segment, the program is left as it was. It is so with tied weights: the first micro-step adds to
// their gradient at the embedding, last of all, before the second one does at the head.
class BlocksFirst : public Pass {
 public:
  std::string_view name() const override { return "blocks_first"; }
  PassResult Run(Program& program) override;
};

}  // namespace plimsoll::graph
