// The forward pass of Llama and of families that differ from Llama in a few parts. Each such family
// is a file with a LanguageFamilyRegistration: qwen2.cc, qwen3.cc, mistral.cc, phi3.cc.
#pragma once

#include <memory>
#include <vector>

#include "models/language_model.h"

namespace plimsoll::models {

struct LlamaParts {
  // With ModelSpec::attention_bias, the output projection has a bias, too, in addition to q, k and
  // v.
  bool projection_bias = false;
  // Each head of q and k has an RMS norm before the rotary embedding (ops/norms/qk_norm.h).
  bool qk_norm = false;
  // Checkpoints store q, k and v as one tensor, and gate and up as another, stacked by rows in this
  // order.
  bool packed_tensors = false;
};

// How the parameters are sharded among tensor-parallel ranks, and their names in checkpoints.
std::vector<Sharding> LlamaSharding(const ModelSpec& spec);
CheckpointTable LlamaTable(const ModelSpec& spec, bool packed_tensors = false);

std::unique_ptr<LanguageModel> MakeLlama(ModelSpec spec, const LlamaParts& parts);

}  // namespace plimsoll::models
