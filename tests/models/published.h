// Specs of published models, and small ones for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/huggingface.h"
#include "models/language_model.h"

namespace plimsoll::models {

// The spec of the language model that a config.json describes.
inline ModelSpec SpecFromConfig(const formats::JsonObject& config) {
  Settings settings;
  return LanguageSpec(*ModelFromConfig(config, settings));
}
inline ModelSpec SpecFromHuggingFace(const std::string& folder) {
  return LanguageSpec(*ModelFromHuggingFace(folder));
}

struct Published {
  std::string name;
  ModelSpec spec;
  int64_t parameters;  // as published (a tied head counted once)
};

inline ModelSpec Gpt2Spec(int64_t layers, int64_t width, int64_t heads, int64_t vocab,
                          int64_t max_sequence) {
  ModelSpec spec;
  spec.family = "gpt2";
  spec.layers = layers;
  spec.width = width;
  spec.heads = spec.kv_heads = heads;
  spec.head_width = width / heads;
  spec.ffn_width = 4 * width;
  spec.vocab = vocab;
  spec.max_sequence = max_sequence;
  spec.tied = true;
  spec.attention_bias = true;
  return spec;
}

struct LlamaSizes {
  int64_t layers, width, heads, kv_heads, head_width, ffn_width, vocab, max_sequence;
  bool tied;
};

inline ModelSpec LlamaSpec(const LlamaSizes& sizes) {
  ModelSpec spec;
  spec.family = "llama";
  spec.layers = sizes.layers;
  spec.width = sizes.width;
  spec.heads = sizes.heads;
  spec.kv_heads = sizes.kv_heads;
  spec.head_width = sizes.head_width;
  spec.ffn_width = sizes.ffn_width;
  spec.vocab = sizes.vocab;
  spec.max_sequence = sizes.max_sequence;
  spec.tied = sizes.tied;
  return spec;
}

inline ModelSpec Qwen2Spec(const LlamaSizes& sizes) {
  ModelSpec spec = LlamaSpec(sizes);
  spec.family = "qwen2";
  spec.attention_bias = true;
  spec.norm_eps = 1e-6;
  spec.rope_theta = 1e6;
  return spec;
}

inline ModelSpec Qwen3Spec(const LlamaSizes& sizes) {
  ModelSpec spec = LlamaSpec(sizes);
  spec.family = "qwen3";
  spec.norm_eps = 1e-6;
  spec.rope_theta = 1e6;
  return spec;
}

inline ModelSpec MistralSpec(const LlamaSizes& sizes) {
  ModelSpec spec = LlamaSpec(sizes);
  spec.family = "mistral";
  return spec;
}

inline ModelSpec Phi3Spec(const LlamaSizes& sizes) {
  ModelSpec spec = LlamaSpec(sizes);
  spec.family = "phi3";
  return spec;
}

// Longrope with rising factors, for the pairs that turn.
inline RopeScaling LongropeOf(const ModelSpec& spec, int64_t original_sequence) {
  RopeScaling scaling = {.type = RopeScaling::Type::kLongrope,
                         .original_sequence = original_sequence,
                         .attention_factor = 1.19};
  const int64_t turned = spec.rotary_width == 0 ? spec.head_width : spec.rotary_width;
  for (int64_t pair = 0; pair < turned / 2; ++pair) {
    scaling.short_factor.push_back(1 + 0.25 * static_cast<double>(pair));
    scaling.long_factor.push_back(1.5 + 2.5 * static_cast<double>(pair));
  }
  return scaling;
}

inline ModelSpec Gemma2Spec(const LlamaSizes& sizes) {
  ModelSpec spec = LlamaSpec(sizes);
  spec.family = "gemma2";
  spec.norm_eps = 1e-6;
  spec.window = 4096;
  spec.windowed = WindowedLayers(sizes.layers, 2);
  spec.query_pre_attn_scalar = sizes.head_width;
  spec.attn_logit_softcapping = 50;
  spec.final_logit_softcapping = 30;
  return spec;
}

inline ModelSpec Gemma3Spec(const LlamaSizes& sizes, int64_t window) {
  ModelSpec spec = LlamaSpec(sizes);
  spec.family = "gemma3_text";
  spec.norm_eps = 1e-6;
  spec.rope_theta = 1e6;
  spec.rope_local_base_freq = 1e4;
  spec.window = window;
  spec.windowed = WindowedLayers(sizes.layers, 6);
  spec.query_pre_attn_scalar = sizes.head_width;
  return spec;
}

inline std::vector<Published> PublishedModels() {
  return {
      {"GPT-2 124M", Gpt2Spec(12, 768, 12, 50257, 1024), 124'439'808},
      {"GPT-2 355M", Gpt2Spec(24, 1024, 16, 50257, 1024), 354'823'168},
      {"GPT-2 774M", Gpt2Spec(36, 1280, 20, 50257, 1024), 774'030'080},
      {"GPT-2 1558M", Gpt2Spec(48, 1600, 25, 50257, 1024), 1'557'611'200},
      {"GPT-3 175B", Gpt2Spec(96, 12288, 96, 50257, 2048), 174'604'259'328},
      {"Llama-3.2-1B", LlamaSpec({16, 2048, 32, 8, 64, 8192, 128256, 131072, true}), 1'235'814'400},
      {"Llama-3.2-3B", LlamaSpec({28, 3072, 24, 8, 128, 8192, 128256, 131072, true}),
       3'212'749'824},
      {"Llama-3.1-8B", LlamaSpec({32, 4096, 32, 8, 128, 14336, 128256, 131072, false}),
       8'030'261'248},
      {"Llama-2-13B", LlamaSpec({40, 5120, 40, 40, 128, 13824, 32000, 4096, false}),
       13'015'864'320},
      {"Qwen2-0.5B", Qwen2Spec({24, 896, 14, 2, 64, 4864, 151936, 131072, true}), 494'032'768},
      {"Qwen2-1.5B", Qwen2Spec({28, 1536, 12, 2, 128, 8960, 151936, 131072, true}), 1'543'714'304},
      {"Qwen3-0.6B", Qwen3Spec({28, 1024, 16, 8, 128, 3072, 151936, 40960, true}), 596'049'920},
      {"Qwen3-8B", Qwen3Spec({36, 4096, 32, 8, 128, 12288, 151936, 40960, false}), 8'190'735'360},
      {"Mistral-7B-v0.3", MistralSpec({32, 4096, 32, 8, 128, 14336, 32768, 32768, false}),
       7'248'023'552},
      {"Phi-3-mini-4k", Phi3Spec({32, 3072, 32, 32, 96, 8192, 32064, 4096, false}), 3'821'079'552},
      {"Phi-4-mini", Phi3Spec({32, 3072, 24, 8, 128, 8192, 200064, 131072, true}), 3'836'021'760},
      {"Phi-4", Phi3Spec({40, 5120, 40, 10, 128, 17920, 100352, 16384, false}), 14'659'507'200},
      {"Gemma-2-2B", Gemma2Spec({26, 2304, 8, 4, 256, 9216, 256000, 8192, true}), 2'614'341'888},
      {"Gemma-2-9B", Gemma2Spec({42, 3584, 16, 8, 256, 14336, 256000, 8192, true}), 9'241'705'984},
      {"Gemma-3-1B", Gemma3Spec({26, 1152, 4, 1, 256, 6912, 262144, 32768, true}, 512),
       999'885'952},
  };
}

// One model of each family, with sizes that differ wherever they may.
inline std::vector<ModelSpec> TinyModels() {
  ModelSpec untied = Gpt2Spec(2, 12, 3, 17, 9);
  untied.tied = false;
  untied.ffn_width = 20;
  ModelSpec biased = LlamaSpec({2, 12, 4, 2, 6, 10, 17, 9, false});
  biased.attention_bias = true;
  biased.rope_scaling = RopeScaling{};
  ModelSpec stretched = LlamaSpec({2, 12, 3, 1, 4, 10, 17, 9, false});
  stretched.rope_scaling = RopeScaling::Linear(2.5);
  ModelSpec biased_heads = Qwen3Spec({2, 12, 4, 2, 6, 10, 17, 9, false});
  biased_heads.attention_bias = true;
  ModelSpec windowed = MistralSpec({2, 12, 4, 1, 4, 10, 17, 9, false});
  windowed.window = 8;
  ModelSpec yarn = Qwen2Spec({2, 12, 3, 1, 4, 10, 17, 9, false});
  yarn.rope_scaling = RopeScaling::Yarn(4, 20);
  ModelSpec partial = Phi3Spec({2, 24, 4, 2, 6, 10, 17, 9, true});
  partial.rotary_width = 4;
  ModelSpec longrope = Phi3Spec({2, 24, 3, 1, 8, 10, 17, 9, false});
  longrope.window = 8;
  longrope.rotary_width = 6;
  longrope.rope_scaling = LongropeOf(longrope, 8);
  ModelSpec capped = Gemma2Spec({3, 12, 4, 2, 6, 10, 17, 9, true});
  capped.window = 5;
  capped.query_pre_attn_scalar = 9;
  ModelSpec uncapped = Gemma2Spec({2, 12, 3, 1, 4, 10, 17, 9, false});
  uncapped.windowed = {false, true};
  uncapped.attn_logit_softcapping = uncapped.final_logit_softcapping = 0;
  uncapped.attention_bias = true;
  ModelSpec local = Gemma3Spec({7, 12, 4, 2, 6, 10, 17, 9, true}, 5);
  local.rope_scaling = RopeScaling::Linear(8);
  local.final_logit_softcapping = 20;
  return {
      Gpt2Spec(3, 12, 3, 17, 9),
      untied,
      LlamaSpec({2, 12, 4, 2, 6, 10, 17, 9, true}),
      biased,
      stretched,
      Qwen2Spec({3, 12, 6, 2, 4, 10, 17, 9, true}),
      Qwen3Spec({3, 12, 4, 2, 6, 10, 17, 9, true}),
      biased_heads,
      MistralSpec({2, 12, 3, 1, 6, 10, 17, 9, true}),
      windowed,
      yarn,
      partial,
      longrope,
      capped,
      uncapped,
      local,
  };
}

}  // namespace plimsoll::models
