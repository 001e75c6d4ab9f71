// GPT-2 and GPT-3: learned positions, pre-norm LayerNorm, GELU, biases everywhere.
//   Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
//   Brown et al. 2020, "Language Models are Few-Shot Learners" (dense attention in all layers).
#pragma once

#include <utility>
#include <vector>

#include "models/language_model.h"

namespace plimsoll::models {

class Gpt2 final : public LanguageModel {
 public:
  explicit Gpt2(ModelSpec spec) : LanguageModel(std::move(spec)) {}

  std::vector<Sharding> sharding() const override;
  CheckpointTable checkpoint_table() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;
};

}  // namespace plimsoll::models
