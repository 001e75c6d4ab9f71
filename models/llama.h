// Llama 1 to 3 and Qwen2: RMSNorm, rotary positions, SwiGLU, grouped-query attention. Qwen2 is
// Llama with a bias on q, k and v.
//   Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models".
//   Grattafiori et al. 2024, "The Llama 3 Herd of Models".
//   Yang et al. 2024, "Qwen2 Technical Report".
#pragma once

#include <utility>
#include <vector>

#include "models/language_model.h"

namespace plimsoll::models {

class Llama final : public LanguageModel {
 public:
  explicit Llama(ModelSpec spec) : LanguageModel(std::move(spec)) {}

  std::vector<Sharding> sharding() const override;
  CheckpointTable checkpoint_table() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;
};

}  // namespace plimsoll::models
