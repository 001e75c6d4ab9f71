// Replaces groups of nodes by one that does the same work with less traffic. Which groups is the
// device's business: a fusion is a rule handed to the pass.
#pragma once

#include <string>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::graph {

struct Fusion {
  std::string name;
  // Rewrites every match; returns how many.
  int (*apply)(Program&);
};

class Fuse : public Pass {
 public:
  explicit Fuse(std::vector<Fusion> fusions) : fusions_(std::move(fusions)) {}
  std::string_view name() const override { return "fuse"; }
  PassResult Run(Program& program) override;

 private:
  std::vector<Fusion> fusions_;
};

}  // namespace plimsoll::graph
