// Deduplicates the preparation and loading of kernels. Nodes with the same ops, types and
// attributes use the same kernels on other data. These kernels are prepared and loaded only once.
#pragma once

#include <span>
#include <string>
#include <unordered_set>

#include "graph/program.h"

namespace plimsoll::runtime {

class DistinctCalls {
 public:
  // Returns true unless an equal sequence of nodes was added before: of the same length, with the
  // same ops, types, tensor places and attributes. The random key is not compared.
  bool Add(const graph::Program& program, std::span<const int> nodes);

 private:
  std::unordered_set<std::string> added_;
};

}  // namespace plimsoll::runtime
