// Checks the conditions that every program must meet, whatever made it.
#pragma once

#include "graph/program.h"

namespace plimsoll::graph {

// Throws an InternalError that names node and tensor unless
// - every argument exists, and only arguments declared optional are absent;
// - outputs have the types that the op infers;
// - every tensor is written before it is read: by an earlier node, or it is persistent;
// - a tensor that is not persistent is written by exactly one node;
// - a node that reads and writes the same tensor does so at an in-place pair of its op;
// - aliases lie within their base, which owns its memory or is itself a valid alias;
// - the forward phase of each micro-step comes first;
// - in the micro-step of a parameter's update, only the update reads the parameter after it is
//   updated. The update may be within the backward phase.
void Verify(const Program& program);

// "node 12 (linear @block.0.fc)": how errors name a node.
std::string Describe(const Program& program, size_t node);

}  // namespace plimsoll::graph
