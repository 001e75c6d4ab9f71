// Helpers with which fusions rewrite a program in one pass over its nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "graph/program.h"

namespace plimsoll::ops {

// Adds the program's nodes back one by one, and calls `rewrite` after each: that node is then the
// last one of the program, so a rewrite only changes nodes between a match and the current end.
// Returns how often `rewrite` returned true.
template <typename Rewrite>
int RewriteNodes(graph::Program& program, Rewrite rewrite) {
  std::vector<graph::Node> nodes = std::move(program.mutable_nodes());
  program.mutable_nodes().clear();
  program.mutable_nodes().reserve(nodes.size());
  int rewritten = 0;
  for (graph::Node& node : nodes) {
    program.mutable_nodes().push_back(std::move(node));
    if (rewrite()) ++rewritten;
  }
  return rewritten;
}

// Removes nodes[first] and replaces the last node by `last`. `after` has the sorted indices
// of the nodes between the two that move after `last`.
inline void MoveAfter(std::vector<graph::Node>& nodes, size_t first,
                      const std::vector<size_t>& after, graph::Node last) {
  std::vector<graph::Node> moved;
  size_t to = first;
  for (size_t i = first + 1; i + 1 < nodes.size(); ++i) {
    if (std::binary_search(after.begin(), after.end(), i)) {
      moved.push_back(std::move(nodes[i]));
    } else {
      nodes[to++] = std::move(nodes[i]);
    }
  }
  nodes.resize(to);
  nodes.push_back(std::move(last));
  for (graph::Node& node : moved) nodes.push_back(std::move(node));
}

}  // namespace plimsoll::ops
