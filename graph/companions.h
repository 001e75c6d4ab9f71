// Nodes next to the computation of a block that do not interrupt it: wherever they are, the block's
// nodes before and after them are still neighbours.
#pragma once

#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// Whether the node computes nothing: a view, or one half of a transfer.
bool OnlyMoves(const Node& node);

// Whether the node makes a temporary parameter outside of an update: the codes of a weight that a
// transfer sends (parallel/gather_codes.h). It belongs to the start of the transfer.
bool MakesParameter(const Program& program, const Node& node);

// Two different answers, by node, to the question which nodes add the result of a collective to
// gradients. They differ in what the nodes write, and in whether a collective must have written
// what they read.

// Nodes that write only carried gradients, from carried gradients, from results of collectives of
// any role, and from inputs such as the state of random numbers. Used to order micro-steps:
// micro-steps add only to carried gradients, and a sum of squares belongs to its own segment.
std::vector<bool> AddToCarriedGradients(const Program& program);

// Nodes that read only gradients and inputs, among them the result of a collective; they may write
// any tensor, so that sums of squares count, too. Used for residency on the device: all these nodes
// read the gradient when it arrives, whether it is carried or not.
std::vector<bool> ReadSummedGradients(const Program& program);

}  // namespace plimsoll::graph
