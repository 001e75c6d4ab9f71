// The decisions of a variant by the block they are about.
#pragma once

#include <vector>

#include "memory/solver.h"

namespace plimsoll::memory {

struct DecisionGroups {
  std::vector<std::vector<int>> segments;  // by block: its decisions; last: those outside any block
  std::vector<int> kinds;                  // by block: blocks with the same decisions are of a kind

  int blocks() const { return static_cast<int>(kinds.size()); }
};

// Of a variant with one base.
DecisionGroups GroupDecisions(const Variant& variant);

}  // namespace plimsoll::memory
