// Replaces groups of nodes by one node that does the same work with less memory traffic. The pass
// is given a list of fusions, which are rewriting rules; the list depends on the device.
#pragma once

#include <string>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::graph {

struct Fusion {
  std::string name;
  // Rewrites every match. Returns the number of matches.
  int (*apply)(Program&);
};

class Fuse : public Pass {
 public:
  explicit Fuse(std::vector<Fusion> fusions) : fusions_(std::move(fusions)) {}
  std::string_view name() const override { return "fuse"; }
  Contract contract() const override {
    return {.gives = {Fact::kFused},
            .spoils = {Fact::kPrefetched, Fact::kMoved, Fact::kResident, Fact::kByLoss,
                       Fact::kScratched},
            .keeps_numbers = true};
  }
  PassResult Run(Program& program) override;

 private:
  std::vector<Fusion> fusions_;
};

}  // namespace plimsoll::graph
