#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/huggingface.h"
#include "tests/models/config_text.h"
#include "tests/models/published.h"

namespace plimsoll::models {
namespace {

constexpr char kGpt2[] =
    R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
        "vocab_size": 50257})";
constexpr char kLlama[] =
    R"({"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048,
        "num_attention_heads": 32, "intermediate_size": 8192, "vocab_size": 128256,
        "max_position_embeddings": 131072})";
constexpr char kQwen2[] =
    R"({"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896,
        "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
        "vocab_size": 151936, "max_position_embeddings": 131072})";
constexpr char kQwen3[] =
    R"({"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024,
        "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
        "vocab_size": 151936, "max_position_embeddings": 40960})";
constexpr char kMistral[] =
    R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096,
        "num_attention_heads": 32, "intermediate_size": 14336, "vocab_size": 32768,
        "max_position_embeddings": 32768})";

TEST(HuggingFaceConfig, Gpt2DefaultsAreThoseOfTransformers) {
  ModelSpec expected = Gpt2Spec(12, 768, 12, 50257, 1024);
  expected.dropout = 0.1;
  EXPECT_EQ(ReadConfig(kGpt2), expected);
}

TEST(HuggingFaceConfig, ReadsAllOfGpt2) {
  const ModelSpec spec = ReadConfig(
      WithMembers(kGpt2,
                  R"("n_inner": 1000, "activation_function": "gelu", "layer_norm_epsilon": 1e-6,
         "resid_pdrop": 0, "embd_pdrop": 0.0, "attn_pdrop": 0, "initializer_range": 0.01,
         "tie_word_embeddings": false, "scale_attn_weights": true, "bos_token_id": 1,
         "eos_token_id": [2, 3])"));
  EXPECT_EQ(spec.ffn_width, 1000);
  EXPECT_EQ(spec.activation, Activation::kGeluErf);
  EXPECT_EQ(spec.norm_eps, 1e-6);
  EXPECT_EQ(spec.dropout, 0);
  EXPECT_EQ(spec.init_std, 0.01);
  EXPECT_FALSE(spec.tied);
  EXPECT_EQ(spec.begin_token, 1);
  EXPECT_EQ(spec.end_tokens, (std::vector<int64_t>{2, 3}));
}

TEST(HuggingFaceConfig, LlamaDefaultsAreThoseOfTransformers) {
  ModelSpec expected = LlamaSpec({16, 2048, 32, 32, 64, 8192, 128256, 131072, false});
  expected.norm_eps = 1e-6;
  EXPECT_EQ(ReadConfig(kLlama), expected);
}

// Llama-3.2-1B as older and newer versions write its rotary embedding.
TEST(HuggingFaceConfig, ReadsBothFormsOfRotaryScaling) {
  const std::string factors =
      R"("factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192)";
  const ModelSpec old_form = ReadConfig(WithMembers(
      kLlama,
      R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", )" + factors + "}"));
  EXPECT_EQ(old_form.rope_theta, 500000.0);
  EXPECT_EQ(old_form.rope_scaling, (RopeScaling{.factor = 32.0,
                                                .low_freq_factor = 1.0,
                                                .high_freq_factor = 4.0,
                                                .original_sequence = 8192}));
  EXPECT_EQ(ReadConfig(WithMembers(
                kLlama, R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", )" +
                            factors + "}")),
            old_form);

  const ModelSpec plain =
      ReadConfig(WithMembers(kLlama, R"("rope_theta": 5e5, "rope_scaling": null)"));
  EXPECT_EQ(plain.rope_theta, 500000.0);
  EXPECT_FALSE(plain.rope_scaling);
  EXPECT_EQ(ReadConfig(WithMembers(
                kLlama, R"("rope_parameters": {"rope_theta": 500000, "rope_type": "default"})")),
            plain);
}

TEST(HuggingFaceConfig, ReadsLinearScalingInAllForms) {
  for (
      const char* members :
      {R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4})",
       R"("rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 4.0})",
       R"("rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5})",
       R"("rope_theta": 5e5, "rope_parameters": {"rope_type": "linear", "factor": 4.0})",
       R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 4},
           "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000})",
       R"("rope_scaling": null, "rope_parameters": {"type": "linear", "factor": 4.0,
           "rope_theta": 500000})"}) {
    SCOPED_TRACE(members);
    const ModelSpec spec = ReadConfig(WithMembers(kLlama, members));
    EXPECT_EQ(spec.rope_theta, 5e5);
    EXPECT_EQ(spec.rope_scaling, RopeScaling::Linear(4));
  }
}

TEST(HuggingFaceConfig, RefusesRotaryParametersThatContradictEachOther) {
  const auto llama = [](const std::string& members) {
    return RefusedConfig(WithMembers(kLlama, members));
  };
  EXPECT_EQ(llama(R"("rope_theta": 5e5, "rope_parameters": {"rope_type": "default",
                     "rope_theta": 10000.0})"),
            "config.json: rope_parameters.rope_theta: is 10000, but rope_theta is 500000; keep one "
            "of the two");
  EXPECT_EQ(llama(R"("rope_scaling": {"type": "linear", "factor": 2},
                     "rope_parameters": {"rope_type": "linear", "factor": 4})"),
            "config.json: rope_parameters: asks for another scaling (linear, factor 4) than "
            "rope_scaling (linear, factor 2); keep one of the two");
  EXPECT_EQ(llama(R"("rope_scaling": {"type": "linear", "factor": 2},
                     "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0})"),
            "config.json: rope_parameters: asks for another scaling (none) than rope_scaling "
            "(linear, factor 2); keep one of the two");
  EXPECT_EQ(llama(R"("rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 2})"),
            "config.json: rope_scaling.rope_type: is \"llama3\", but type is \"linear\"; keep one");
}

TEST(HuggingFaceConfig, ReadsAllOfLlama) {
  const ModelSpec spec = ReadConfig(WithMembers(
      kLlama,
      R"("num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "attention_bias": true,
         "tie_word_embeddings": true, "attention_dropout": 0.25, "hidden_act": "silu",
         "mlp_bias": false)"));
  EXPECT_EQ(spec.kv_heads, 8);
  EXPECT_EQ(spec.head_width, 128);
  EXPECT_EQ(spec.norm_eps, 1e-5);
  EXPECT_TRUE(spec.attention_bias);
  EXPECT_TRUE(spec.tied);
  EXPECT_EQ(spec.dropout, 0.25);
}

TEST(HuggingFaceConfig, Qwen2HasItsAttentionBias) {
  const ModelSpec expected = Qwen2Spec({24, 896, 14, 2, 64, 4864, 151936, 131072, true});
  EXPECT_EQ(ReadConfig(WithMembers(kQwen2,
                                   R"("rope_theta": 1000000.0, "use_sliding_window": false,
                         "sliding_window": 131072, "max_window_layers": 24,
                         "layer_types": ["full_attention", "full_attention"],
                         "tie_word_embeddings": true, "rms_norm_eps": 1e-06)")),
            expected);
}

TEST(HuggingFaceConfig, ReadsQwen3) {
  const ModelSpec expected = Qwen3Spec({28, 1024, 16, 8, 128, 3072, 151936, 40960, true});
  // As published, and as versions of transformers from 5 on write it.
  EXPECT_EQ(
      ReadConfig(WithMembers(kQwen3,
                             R"("head_dim": 128, "attention_bias": false, "rope_theta": 1000000,
                         "rope_scaling": null, "use_sliding_window": false, "sliding_window": null,
                         "max_window_layers": 28, "tie_word_embeddings": true)")),
      expected);
  EXPECT_EQ(
      ReadConfig(WithMembers(kQwen3,
                             R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
                         "layer_types": ["full_attention"], "tie_word_embeddings": true)")),
      expected);
  EXPECT_TRUE(ReadConfig(WithMembers(kQwen3, R"("attention_bias": true)")).attention_bias);
  // Without the keys, as in transformers; null: as many as query heads.
  std::string without = kQwen3;
  without.replace(without.find(R"("num_key_value_heads": 8)"), 24, R"("head_dim": null)");
  without.replace(without.find(R"("num_attention_heads": 16)"), 25, R"("num_attention_heads": 64)");
  EXPECT_EQ(ReadConfig(without).kv_heads, 32);
  EXPECT_EQ(ReadConfig(without).head_width, 128);
  EXPECT_EQ(ReadConfig(WithMembers(without, R"("num_key_value_heads": null)")).kv_heads, 64);
}

TEST(HuggingFaceConfig, ReadsMistral) {
  ModelSpec expected = MistralSpec({32, 4096, 32, 8, 128, 14336, 32768, 32768, false});
  expected.rope_theta = 1e6;
  const std::string v3 = WithMembers(
      kMistral, R"("rope_theta": 1000000.0, "rms_norm_eps": 1e-05, "num_key_value_heads": 8)");
  EXPECT_EQ(ReadConfig(WithMembers(v3, R"("sliding_window": null)")), expected);
  expected.window = 4096;
  EXPECT_EQ(ReadConfig(WithMembers(v3, R"("sliding_window": 4096)")), expected);
  EXPECT_EQ(ReadConfig(v3), expected);  // as in transformers
  EXPECT_EQ(ReadConfig(WithMembers(v3, R"("head_dim": 96)")).head_width, 96);
  EXPECT_EQ(ReadConfig(kMistral).kv_heads, 8);
}

// Values are those of transformers 5.
TEST(HuggingFaceConfig, ReadsYarn) {
  const auto scaling = [](const std::string& members) {
    return *ReadConfig(WithMembers(kQwen2, members)).rope_scaling;
  };
  RopeScaling expected = RopeScaling::Yarn(4, 32768);
  EXPECT_NEAR(expected.attention_factor, 1.138629436111989, 1e-15);
  EXPECT_EQ(scaling(R"("rope_scaling": {"type": "yarn", "factor": 4.0,
                       "original_max_position_embeddings": 32768})"),
            expected);
  EXPECT_EQ(scaling(R"("rope_parameters": {"rope_type": "yarn", "factor": 4, "rope_theta": 1e6,
                       "original_max_position_embeddings": 32768, "beta_fast": null,
                       "beta_slow": 0, "attention_factor": null, "truncate": true})"),
            expected);
  expected.truncate = false;
  EXPECT_EQ(scaling(R"("rope_scaling": {"type": "yarn", "factor": 4.0, "truncate": null,
                       "original_max_position_embeddings": 32768})"),
            expected);
  expected.truncate = true;
  expected.original_sequence = 131072;  // the model's longest text
  EXPECT_EQ(scaling(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})"), expected);
  expected.attention_factor = 0.5;
  expected.beta_fast = 16;
  expected.beta_slow = 2;
  expected.truncate = false;
  EXPECT_EQ(scaling(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16,
                       "beta_slow": 2, "attention_factor": 0.5, "truncate": false,
                       "mscale": 1.0, "mscale_all_dim": 0.5})"),
            expected);
  EXPECT_NEAR(scaling(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 2.0,
                         "mscale_all_dim": 0.5})")
                  .attention_factor,
              1.1944648761, 1e-9);
}

constexpr char kPhi3[] =
    R"({"model_type": "phi3", "num_hidden_layers": 2, "hidden_size": 32,
        "num_attention_heads": 4, "intermediate_size": 20, "vocab_size": 19,
        "max_position_embeddings": 64})";

TEST(HuggingFaceConfig, Phi3DefaultsAreThoseOfTransformers) {
  EXPECT_EQ(ReadConfig(kPhi3), Phi3Spec({2, 32, 4, 4, 8, 20, 19, 64, false}));
}

// As published files of Phi-3, Phi-3.5 and Phi-4-mini, and transformers 5, write it.
TEST(HuggingFaceConfig, ReadsLongropeInAllForms) {
  const std::string lists = R"("short_factor": [1, 1.25, 1.5], "long_factor": [2, 4, 8.5])";
  const std::string outside =
      R"("original_max_position_embeddings": 16, "partial_rotary_factor": 0.75, )";
  ModelSpec expected = Phi3Spec({2, 32, 4, 4, 8, 20, 19, 64, false});
  expected.rotary_width = 6;
  expected.rope_scaling = RopeScaling{.type = RopeScaling::Type::kLongrope,
                                      .original_sequence = 16,
                                      .attention_factor = std::sqrt(1.5),  // of ln 4 / ln 16
                                      .short_factor = {1, 1.25, 1.5},
                                      .long_factor = {2, 4, 8.5}};
  for (const char* type : {"longrope", "su", "yarn"}) {
    EXPECT_EQ(ReadConfig(WithMembers(
                  kPhi3, outside + R"("rope_scaling": {"type": ")" + type + "\", " + lists + "}")),
              expected);
  }
  EXPECT_EQ(ReadConfig(WithMembers(
                kPhi3,
                R"("original_max_position_embeddings": 16, "rope_parameters": {"type": "su",
                   "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                   "original_max_position_embeddings": 16, )" +
                    lists + "}")),
            expected);
  expected.rope_scaling->attention_factor = std::sqrt(1 + std::log(2.0) / std::log(16.0));
  EXPECT_EQ(
      ReadConfig(WithMembers(
          kPhi3, outside + R"("rope_scaling": {"type": "longrope", "factor": 2, )" + lists + "}")),
      expected);
  expected.rope_scaling->attention_factor = 1.5;
  EXPECT_EQ(
      ReadConfig(WithMembers(kPhi3, outside + R"("rope_scaling": {"type": "longrope", "factor": 2,
                                          "attention_factor": 1.5, )" +
                                        lists + "}")),
      expected);
}

TEST(HuggingFaceConfig, ReadsWhatPublishedPhi4MiniSays) {
  ModelSpec expected = Phi3Spec({2, 32, 4, 2, 8, 20, 19, 64, true});
  expected.window = 262144;
  EXPECT_EQ(ReadConfig(WithMembers(
                kPhi3,
                R"("num_key_value_heads": 2, "tie_word_embeddings": true, "attention_bias": false,
                   "attention_dropout": 0.0, "auto_map": {
                     "AutoConfig": "configuration_phi3.Phi3Config",
                     "AutoModelForCausalLM": "some/where--modeling_phi3.Phi3ForCausalLM"},
                   "embd_pdrop": 0.0, "full_attn_mod": 1, "interpolate_factor": 1,
                   "lm_head_bias": false, "mlp_bias": false, "resid_pdrop": 0.0,
                   "original_max_position_embeddings": 4096, "partial_rotary_factor": 1.0,
                   "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 262144,
                   "use_cache": true, "torch_dtype": "bfloat16", "pad_token_id": 5)")),
            expected);
  EXPECT_FALSE(ReadConfig(WithMembers(kPhi3, R"("sliding_window": null)")).window);
  // Seven elements, as transformers rounds, are no pairs.
  EXPECT_EQ(RefusedConfig(WithMembers(kPhi3, R"("partial_rotary_factor": 0.9)")),
            "config.json: partial_rotary_factor: turns 7 of 8 elements of a head, and the rotary "
            "embedding turns pairs");
}

TEST(HuggingFaceConfig, RefusesRotaryPartsByName) {
  const auto llama = [](const std::string& members) {
    return RefusedConfig(WithMembers(kLlama, members));
  };
  const auto phi3 = [](const std::string& members) {
    return RefusedConfig(WithMembers(kPhi3, members));
  };
  EXPECT_EQ(llama(R"("rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]})"),
            "config.json: rope_parameters.mrope_section: is [2,3,3], a key that Plimsoll doesn't "
            "know; remove it from the file if the model's numbers don't depend on it");
  EXPECT_EQ(llama(R"("rope_scaling": {"type": "linear", "factor": 2, "attention_factor": 1.5})"),
            "config.json: rope_scaling.attention_factor: is 1.5, a key that Plimsoll doesn't know; "
            "remove it from the file if the model's numbers don't depend on it");
  EXPECT_EQ(llama(R"("rope_scaling": {"type": "yarn", "factor": 2, "mscale": 0.5})"),
            "config.json: rope_scaling.mscale: changes nothing without the other of mscale and "
            "mscale_all_dim; give both or remove it");
  EXPECT_EQ(llama(R"("original_max_position_embeddings": 5, "rope_scaling": {"type": "yarn",
                     "factor": 2, "original_max_position_embeddings": 6})"),
            "config.json: rope_scaling.original_max_position_embeddings: is 6, but "
            "original_max_position_embeddings next to the object is 5; keep that one alone");
  EXPECT_NE(llama(R"("rope_scaling": {"type": "yarn", "factor": 2, "beta_slow": 64})")
                .find("rope_scaling: needs an attention_factor above 0 and at most 1e6, and 0 < "
                      "beta_slow ≤ beta_fast"),
            std::string::npos);
  EXPECT_EQ(llama(R"("rope_parameters": {"partial_rotary_factor": 0.5})"),
            "config.json: rope_parameters.partial_rotary_factor: only 1 is supported");
  EXPECT_EQ(phi3(R"("rope_scaling": {"type": "linear", "factor": 2})"),
            "config.json: rope_scaling.type: \"linear\" is not supported, only default and "
            "longrope");
  EXPECT_EQ(phi3(R"("rope_scaling": {"type": "yarn", "factor": 2})"),
            "config.json: rope_scaling.short_factor: this key is required");
  EXPECT_EQ(phi3(R"("rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1],
                    "original_max_position_embeddings": 16})"),
            "config.json: rope_scaling.original_max_position_embeddings: is 16, but "
            "original_max_position_embeddings next to the object is absent and means 4096; keep "
            "that one alone");
  EXPECT_NE(phi3(R"("rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 1],
                    "long_factor": [1, 2, 3]})")
                .find("long_factor with a factor above 0 and at most 1e6 for each of the 4 pairs"),
            std::string::npos);
  EXPECT_EQ(phi3(R"("partial_rotary_factor": 0.75, "rope_parameters": {"partial_rotary_factor":
                    0.5})"),
            "config.json: rope_parameters.partial_rotary_factor: is 0.5, but partial_rotary_factor "
            "is 0.75; keep one of the two");
  EXPECT_EQ(phi3(R"("resid_pdrop": 0.1)"), "config.json: resid_pdrop: only 0 is supported");
  EXPECT_EQ(phi3(R"("embd_pdrop": 0.1)"), "config.json: embd_pdrop: only 0 is supported");
  EXPECT_EQ(phi3(R"("full_attn_mod": 2)"), "config.json: full_attn_mod: only 1 is supported");
  EXPECT_EQ(phi3(R"("lm_head_bias": true)"), "config.json: lm_head_bias: only false is supported");
  EXPECT_EQ(phi3(R"("auto_map": {"AutoModel": "mine.Model"})"),
            "config.json: auto_map.AutoModel: names code of the checkpoint's own, \"mine.Model\"; "
            "if transformers' phi3 gives the same numbers, remove it");
  EXPECT_NE(phi3(R"("head_dim": 6)").find("head_width: 4 heads of 6 are not as wide as the model"),
            std::string::npos);
}

TEST(HuggingFaceConfig, RefusesWhatItCannotSay) {
  const auto gpt2 = [](const std::string& members) {
    return RefusedConfig(WithMembers(kGpt2, members));
  };
  const auto llama = [](const std::string& members) {
    return RefusedConfig(WithMembers(kLlama, members));
  };
  const auto qwen2 = [](const std::string& members) {
    return RefusedConfig(WithMembers(kQwen2, members));
  };
  EXPECT_EQ(gpt2(R"("scale_attn_by_inverse_layer_idx": true)"),
            "config.json: scale_attn_by_inverse_layer_idx: only false is supported");
  EXPECT_EQ(gpt2(R"("scale_attn_weights": false)"),
            "config.json: scale_attn_weights: only true is supported");
  EXPECT_EQ(gpt2(R"("add_cross_attention": true)"),
            "config.json: add_cross_attention: only false is supported");
  EXPECT_EQ(gpt2(R"("activation_function": "relu")"),
            "config.json: activation_function: \"relu\" is not supported, only gelu and gelu_new");
  EXPECT_EQ(gpt2(R"("attn_pdrop": 1.5)"),
            "config.json: model_type: these sizes make no gpt2 model: attention_dropout: must be "
            "from 0 to below 1, not 1.5");
  EXPECT_EQ(gpt2(R"("quantization_config": {"bits": 4})"),
            "config.json: quantization_config: is {\"bits\":4}, which is not supported: quantised "
            "checkpoints are not read; save the model in 16 or 32 bits");
  EXPECT_EQ(llama(R"("hidden_act": "gelu")"),
            "config.json: hidden_act: \"gelu\" is not supported, only silu");
  EXPECT_EQ(llama(R"("mlp_bias": true)"), "config.json: mlp_bias: only false is supported");
  EXPECT_EQ(
      llama(R"("rope_scaling": {"type": "dynamic", "factor": 2.0})"),
      "config.json: rope_scaling.type: \"dynamic\" is not supported, only default, linear, llama3, "
      "longrope and yarn");
  EXPECT_EQ(llama(R"("rope_parameters": {"rope_type": "yarn"})"),
            "config.json: rope_parameters.factor: this key is required");
  EXPECT_EQ(llama(R"("rope_scaling": {"type": "linear"})"),
            "config.json: rope_scaling.factor: this key is required");
  EXPECT_EQ(llama(R"("rope_parameters": {"full_attention": {"rope_theta": 1e4}})"),
            "config.json: rope_parameters.full_attention: parameters that differ by layer are not "
            "supported");
  EXPECT_NE(llama(R"("rope_scaling": {"type": "linear", "factor": 1e308})")
                .find("rope_scaling: needs a factor from 1 to 1e6"),
            std::string::npos);
  EXPECT_EQ(llama(R"("partial_rotary_factor": 0.5)"),
            "config.json: partial_rotary_factor: only 1 is supported");
  EXPECT_EQ(qwen2(R"("use_sliding_window": true)"),
            "config.json: use_sliding_window: only false is supported");
  EXPECT_EQ(qwen2(R"("layer_types": ["full_attention", "sliding_attention"])"),
            "config.json: layer_types: \"sliding_attention\" is not supported, only "
            "full_attention");
  EXPECT_EQ(RefusedConfig(R"({"model_type": "t5"})"),
            "config.json: model_type: \"t5\" is not supported, only bert, dcgan, gemma2, "
            "gemma3_text, gpt2, llama, mistral, phi3, qwen2, qwen3, resnet, unet, vit");
  EXPECT_EQ(RefusedConfig(WithMembers(kQwen3, R"("use_sliding_window": true)")),
            "config.json: use_sliding_window: only false is supported");
  EXPECT_EQ(RefusedConfig(WithMembers(kMistral, R"("attention_bias": true)")),
            "config.json: attention_bias: only false is supported");
  EXPECT_NE(RefusedConfig(WithMembers(kMistral, R"("sliding_window": 0)"))
                .find("config.json: sliding_window: "),
            std::string::npos);
  EXPECT_EQ(RefusedConfig(R"({"model_type": "qwen3_moe"})"),
            "config.json: model_type: \"qwen3_moe\" is not supported, only bert, dcgan, gemma2, "
            "gemma3_text, gpt2, llama, mistral, phi3, qwen2, qwen3, resnet, unet, vit");
  EXPECT_EQ(llama(R"("num_key_value_heads": 5)"),
            "config.json: model_type: these sizes make no llama model: kv_heads: 5 do not divide "
            "the 32 heads");
}

TEST(HuggingFaceConfig, RefusesSizesThatAreNone) {
  for (const std::string value : {"0", "-1", "1e300", "2.5", "\"12\"", "[]", "3000000000"}) {
    const std::string text = R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12,
        "n_positions": 1024, "vocab_size": 50257, "n_layer": )" +
                             value + "}";
    EXPECT_NE(RefusedConfig(text).find("config.json: n_layer: "), std::string::npos) << value;
  }
  EXPECT_NE(RefusedConfig(R"({"model_type": "gpt2"})").find("n_layer"), std::string::npos);
}

TEST(HuggingFaceConfig, WritesWhatItReads) {
  std::vector<ModelSpec> specs = TinyModels();
  for (const Published& model : PublishedModels()) specs.push_back(model.spec);
  for (ModelSpec& spec : specs) {
    EXPECT_EQ(ReadConfig(ConfigJson(*MakeModel(spec))), spec);
    spec.dropout = 0.125;
    spec.norm_eps = 3e-7;
    spec.init_std = 0.013;
    spec.begin_token = 5;
    spec.end_tokens = {7};
    if (spec.family == "gpt2") {
      spec.activation = Activation::kGeluErf;
    } else if (spec.family == "phi3") {
      spec.rope_theta = 123456.5;
      spec.rotary_width = spec.head_width - 2;
      spec.rope_scaling = LongropeOf(spec, 7);
    } else {
      spec.rope_theta = 123456.5;
      spec.rope_scaling = RopeScaling::Linear(2.5);
      EXPECT_EQ(ReadConfig(ConfigJson(*MakeModel(spec))), spec);
      spec.rope_scaling = LongropeOf(spec, 7);
      EXPECT_EQ(ReadConfig(ConfigJson(*MakeModel(spec))), spec);
      spec.rope_scaling = RopeScaling::Yarn(2.5, 77);
      EXPECT_EQ(ReadConfig(ConfigJson(*MakeModel(spec))), spec);
      spec.rope_scaling->attention_factor = 0.875;
      spec.rope_scaling->beta_fast = 16;
      spec.rope_scaling->beta_slow = 2.5;
      spec.rope_scaling->truncate = false;
      EXPECT_EQ(ReadConfig(ConfigJson(*MakeModel(spec))), spec);
      spec.rope_scaling = RopeScaling{
          .factor = 2.5, .low_freq_factor = 1.5, .high_freq_factor = 3.5, .original_sequence = 77};
    }
    EXPECT_EQ(ReadConfig(ConfigJson(*MakeModel(spec))), spec);
    spec.end_tokens = {7, 8};
    EXPECT_EQ(ReadConfig(ConfigJson(*MakeModel(spec))), spec);
  }
}

}  // namespace
}  // namespace plimsoll::models
