// A table of orders for the nodes of several micro-steps (graph/micro_steps.h), and a function that
// proves an order. An order changes no number if the micro-steps' accesses to each tensor keep
// their order: additions to a gradient, and reads of what another micro-step has written.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// A proposed order. A stage is a number: nodes are sorted by stage, and within a stage by
// micro-step; otherwise they keep their order.
struct Stages {
  std::vector<int> of_nodes;  // by node: its stage, from 0
  // By node: whether the order is refused if dependencies move the node to a later stage. Nodes
  // that are not fixed may move to a later stage.
  std::vector<bool> fixed;
};

struct MicroStepOrder {
  std::string_view name;
  Stages (*stages)(const Program& program);
};

// The table has two orders: "one after another", in which micro-steps are appended, and "blocks
// first" (graph/step_passes.h).
std::span<const MicroStepOrder> MicroStepOrders();
const MicroStepOrder& RequireOrder(std::string_view name);  // throws InternalError if the table has
                                                            // no such row

struct ProvenOrder {
  std::vector<size_t> nodes;  // indices of the nodes, in the new order
  // The first tensor whose accesses force a fixed node into a later stage; kNoTensor if none does.
  TensorId torn = kNoTensor;
};

ProvenOrder Prove(const Program& program, const Stages& stages);

}  // namespace plimsoll::graph
