// The nodes of the update by parameter.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

inline constexpr int kNoUnit = -1;

// A unit is the update of one parameter, or of a slice of it, and what follows on it within the
// same scope: its average.
class UpdateUnits {
 public:
  explicit UpdateUnits(const graph::Program& program);

  // By the node's index in the program; kNoUnit: a counter, a norm, a collective, or no update.
  int Of(size_t node) const { return of_nodes_[node]; }
  int count() const { return count_; }

 private:
  std::vector<int> of_nodes_;
  int count_ = 0;
};

// Moves the nodes of a unit at the end of a step behind its first one, with what they depend on.
// Averages otherwise stand behind the updates of all parameters.
void JoinUnits(graph::Program& program);

}  // namespace plimsoll::optim
