// Companions: nodes between the nodes of a block that are not part of its computation. The block's
// nodes before and after a companion count as neighbours.
#pragma once

#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// Whether the node computes nothing: a view, or one half of a transfer.
bool OnlyMoves(const Node& node);

// Whether the node makes a temporary parameter outside of an update: the codes of a weight that a
// transfer sends (parallel/gather_codes.h). It belongs to the start of the transfer.
bool MakesParameter(const Program& program, const Node& node);

// The two following functions find the nodes that add results of collectives to gradients. They
// differ in which tensors these nodes may write, and in whether a collective must have written the
// tensors that they read.

// Nodes that write only carried gradients, from carried gradients, from results of collectives of
// any role, and from inputs such as the state of random numbers. Used to order micro-steps:
// micro-steps add only to carried gradients, and a node that computes a sum of squares is not such
// a node.
std::vector<bool> AddToCarriedGradients(const Program& program);

// Nodes that read only gradients and inputs, among them the result of a collective; they may write
// any tensor, so that sums of squares count, too. Used for residency on the device: all these nodes
// read the gradient when it arrives, whether it is carried or not.
std::vector<bool> ReadSummedGradients(const Program& program);

}  // namespace plimsoll::graph
