// Removes nodes whose results are never read, and optional outputs that are not read (such as a
// norm's statistics in a forward-only program). The end of a transfer stays as long as the
// transferred tensor is read.
#pragma once

#include <string>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::graph {

class Simplify : public Pass {
 public:
  // `results`: names of tensors that the host reads although no node does. Persistent tensors
  // always count as read.
  explicit Simplify(std::vector<std::string> results = {}) : results_(std::move(results)) {}
  std::string_view name() const override { return "simplify"; }
  Contract contract() const override { return {.gives = {Fact::kSimplified}}; }
  PassResult Run(Program& program) override;

 private:
  std::vector<std::string> results_;
};

}  // namespace plimsoll::graph
