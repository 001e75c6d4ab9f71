// A language model that sees one token: table lookup, norm, a residual layer of squared ReLUs,
// head. Its family is called "bigram" in run files.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "models/model.h"

namespace plimsoll::models {

class Bigram final : public Model {
 public:
  explicit Bigram(Settings settings) : Model("bigram", std::move(settings)) {}

  std::vector<Sharding> sharding() const override;
  CheckpointTable checkpoint_table() const override;
  std::optional<TextSizes> text_sizes() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;
};

}  // namespace plimsoll::models
