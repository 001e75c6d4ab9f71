// Nodes next to the computation of a block that do not interrupt it: wherever they are, the block's
// nodes before and after them are still neighbours.
#pragma once

#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// Whether the node computes nothing: a view, or one half of a transfer.
bool OnlyMoves(const Node& node);

// Whether the node makes a temporary parameter outside of an update: the codes that a transfer
// sends of a weight (parallel/gather_codes.h). It goes with the start of the transfer.
bool MakesParameter(const Program& program, const Node& node);

// Two answers, by node, to which nodes take the result of a collective into gradients. They differ
// in what the nodes write, and in whether a collective must have written what they read.

// Nodes that write carried gradients alone, from carried gradients, from results of collectives of
// any role, and from inputs such as the state of random numbers. For the order of micro-steps: what
// micro-steps add to is carried, and a sum of squares belongs to the segment that it is in.
std::vector<bool> AddToCarriedGradients(const Program& program);

// Nodes that read gradients and inputs alone, among them the result of a collective; they write
// anything, so that sums of squares count, too. For residency on the device: all of them use the
// gradient when it arrives, whether it is carried or not.
std::vector<bool> ReadSummedGradients(const Program& program);

}  // namespace plimsoll::graph
