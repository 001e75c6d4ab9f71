// Deduplicates kernel preparation and loading. Nodes of the same ops, types and attributes use the
// same kernels on other data; these kernels are prepared and loaded only once.
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
