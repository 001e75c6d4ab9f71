// Orders of the nodes of several micro-steps (graph/micro_steps.h), as a table, and the prover of
// an order: it changes no number if what micro-steps do to a tensor (add to a gradient, read what
// another has written) keeps its order.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// An order to be: nodes go by stage, within a stage by micro-step, and otherwise as before.
struct Stages {
  std::vector<int> of_nodes;  // by node, from 0 on
  // By node: whether the order is refused if the node has to leave its stage for a later one, that
  // of nodes which it has to follow. Other nodes may leave theirs.
  std::vector<bool> fixed;
};

struct MicroStepOrder {
  std::string_view name;
  Stages (*stages)(const Program& program);
};

// The table: "one after another", as they are appended, and "blocks first" (graph/step_passes.h).
std::span<const MicroStepOrder> MicroStepOrders();
const MicroStepOrder& RequireOrder(std::string_view name);  // InternalError without such a row

struct ProvenOrder {
  std::vector<size_t> nodes;  // in their new order
  // The first tensor for which a node has to leave its stage, as its readers and writers would
  // change their order otherwise. kNoTensor: no fixed node has to.
  TensorId torn = kNoTensor;
};

ProvenOrder Prove(const Program& program, const Stages& stages);

}  // namespace plimsoll::graph
