// Tells nodes whose kernels do the same work on other data from those that do something new: what
// was prepared or loaded for the one serves the other.
#pragma once

#include <span>
#include <string>
#include <unordered_set>

#include "graph/program.h"

namespace plimsoll::runtime {

class DistinctCalls {
 public:
  // True unless nodes like these were added before: as many, of the same ops with the same types
  // and attributes but the random key, and tensors in the same places.
  bool Add(const graph::Program& program, std::span<const int> nodes);

 private:
  std::unordered_set<std::string> added_;
};

}  // namespace plimsoll::runtime
