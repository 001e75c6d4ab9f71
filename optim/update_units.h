// Units: the nodes of the update, grouped by parameter.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

inline constexpr int kNoUnit = -1;

// A unit is the update of one parameter, or of one slice of a parameter, with the nodes of the same
// scope that depend on the update: the nodes of the parameter's average.
class UpdateUnits {
 public:
  explicit UpdateUnits(const graph::Program& program);

  // The unit of a node, by its index in the program. kNoUnit if the node is a counter, a norm or a
  // collective, or is not part of the update.
  int Of(size_t node) const { return of_nodes_[node]; }
  int count() const { return count_; }

 private:
  std::vector<int> of_nodes_;
  int count_ = 0;
};

// Moves the nodes of each unit directly after its first node, with the nodes that they depend on,
// in the update at the end of a step. Without this pass, averages come after the updates of all
// parameters.
void JoinUnits(graph::Program& program);

}  // namespace plimsoll::optim
