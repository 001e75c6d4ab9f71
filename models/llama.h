// The forward pass of Llama and of families that are Llama but for a few parts. Such a family is a
// file with a LanguageFamilyRegistration: qwen2.cc, qwen3.cc, mistral.cc, phi3.cc.
#pragma once

#include <memory>
#include <vector>

#include "models/language_model.h"

namespace plimsoll::models {

struct LlamaParts {
  // ModelSpec::attention_bias gives the output projection a bias, too, next to q, k and v.
  bool projection_bias = false;
  // An RMS norm of each head of q and k before their rotation (ops/norms/qk_norm.h).
  bool qk_norm = false;
  // Checkpoints hold q, k and v, and gate and up, as one tensor each, in this order of rows.
  bool packed_tensors = false;
};

// How tensor ranks share the parameters, and what checkpoints call them.
std::vector<Sharding> LlamaSharding(const ModelSpec& spec);
CheckpointTable LlamaTable(const ModelSpec& spec, bool packed_tensors = false);

std::unique_ptr<LanguageModel> MakeLlama(ModelSpec spec, const LlamaParts& parts);

}  // namespace plimsoll::models
