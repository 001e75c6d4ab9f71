// Removes nodes that scale by one.
#pragma once

#include "graph/pass.h"

namespace plimsoll::graph {

class DropUnitScales : public Pass {
 public:
  std::string_view name() const override { return "drop_unit_scales"; }
  Contract contract() const override { return {.keeps_numbers = true}; }
  PassResult Run(Program& program) override;
};

}  // namespace plimsoll::graph
