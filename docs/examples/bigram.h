// A language model that sees one token: table lookup, norm, a residual layer of squared ReLUs,
// head.
#pragma once

#include <utility>
#include <vector>

#include "models/model.h"

namespace plimsoll::models {

class Bigram final : public Model {
 public:
  explicit Bigram(ModelSpec spec) : Model(std::move(spec)) {}

  std::vector<Sharding> sharding() const override;
  CheckpointTable checkpoint_table() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;
};

}  // namespace plimsoll::models
