#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "formats/json.h"
#include "models/huggingface.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;

ModelSpec Read(const std::string& text) {
  return SpecFromConfig(JsonObject::FromText(text, "config.json"));
}

// `text`, a JSON object, with `members` appended.
std::string With(std::string text, const std::string& members) {
  return text.replace(text.rfind('}'), 1, ", " + members + "}");
}

std::string Refusal(const std::string& text) {
  return UserErrorOf([&] { Read(text); });
}

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
  EXPECT_EQ(Read(kGpt2), expected);
}

TEST(HuggingFaceConfig, ReadsAllOfGpt2) {
  const ModelSpec spec =
      Read(With(kGpt2,
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
  EXPECT_EQ(Read(kLlama), expected);
}

// Llama-3.2-1B as older and newer versions write its rotary embedding.
TEST(HuggingFaceConfig, ReadsBothFormsOfRotaryScaling) {
  const std::string factors =
      R"("factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192)";
  const ModelSpec old_form =
      Read(With(kLlama, R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", )" +
                            factors + "}"));
  EXPECT_EQ(old_form.rope_theta, 500000.0);
  EXPECT_EQ(old_form.rope_scaling, (RopeScaling{.factor = 32.0,
                                                .low_freq_factor = 1.0,
                                                .high_freq_factor = 4.0,
                                                .original_sequence = 8192}));
  EXPECT_EQ(
      Read(With(kLlama, R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", )" +
                            factors + "}")),
      old_form);

  const ModelSpec plain = Read(With(kLlama, R"("rope_theta": 5e5, "rope_scaling": null)"));
  EXPECT_EQ(plain.rope_theta, 500000.0);
  EXPECT_FALSE(plain.rope_scaling);
  EXPECT_EQ(
      Read(With(kLlama, R"("rope_parameters": {"rope_theta": 500000, "rope_type": "default"})")),
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
    const ModelSpec spec = Read(With(kLlama, members));
    EXPECT_EQ(spec.rope_theta, 5e5);
    EXPECT_EQ(spec.rope_scaling, RopeScaling::Linear(4));
  }
}

TEST(HuggingFaceConfig, RefusesRotaryParametersThatContradictEachOther) {
  const auto llama = [](const std::string& members) { return Refusal(With(kLlama, members)); };
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
  const ModelSpec spec = Read(With(
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
  EXPECT_EQ(Read(With(kQwen2,
                      R"("rope_theta": 1000000.0, "use_sliding_window": false,
                         "sliding_window": 131072, "max_window_layers": 24,
                         "layer_types": ["full_attention", "full_attention"],
                         "tie_word_embeddings": true, "rms_norm_eps": 1e-06)")),
            expected);
}

TEST(HuggingFaceConfig, ReadsQwen3) {
  const ModelSpec expected = Qwen3Spec({28, 1024, 16, 8, 128, 3072, 151936, 40960, true});
  // As published, and as versions of transformers from 5 on write it.
  EXPECT_EQ(Read(With(kQwen3,
                      R"("head_dim": 128, "attention_bias": false, "rope_theta": 1000000,
                         "rope_scaling": null, "use_sliding_window": false, "sliding_window": null,
                         "max_window_layers": 28, "tie_word_embeddings": true)")),
            expected);
  EXPECT_EQ(Read(With(kQwen3,
                      R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
                         "layer_types": ["full_attention"], "tie_word_embeddings": true)")),
            expected);
  EXPECT_TRUE(Read(With(kQwen3, R"("attention_bias": true)")).attention_bias);
  // Without the keys, as in transformers; null: as many as query heads.
  std::string without = kQwen3;
  without.replace(without.find(R"("num_key_value_heads": 8)"), 24, R"("head_dim": null)");
  without.replace(without.find(R"("num_attention_heads": 16)"), 25, R"("num_attention_heads": 64)");
  EXPECT_EQ(Read(without).kv_heads, 32);
  EXPECT_EQ(Read(without).head_width, 128);
  EXPECT_EQ(Read(With(without, R"("num_key_value_heads": null)")).kv_heads, 64);
}

TEST(HuggingFaceConfig, ReadsMistral) {
  ModelSpec expected = MistralSpec({32, 4096, 32, 8, 128, 14336, 32768, 32768, false});
  expected.rope_theta = 1e6;
  const std::string v3 =
      With(kMistral, R"("rope_theta": 1000000.0, "rms_norm_eps": 1e-05, "num_key_value_heads": 8)");
  EXPECT_EQ(Read(With(v3, R"("sliding_window": null)")), expected);
  expected.window = 4096;
  EXPECT_EQ(Read(With(v3, R"("sliding_window": 4096)")), expected);
  EXPECT_EQ(Read(v3), expected);  // as in transformers
  EXPECT_EQ(Read(With(v3, R"("head_dim": 96)")).head_width, 96);
  EXPECT_EQ(Read(kMistral).kv_heads, 8);
}

TEST(HuggingFaceConfig, RefusesWhatItCannotSay) {
  const auto gpt2 = [](const std::string& members) { return Refusal(With(kGpt2, members)); };
  const auto llama = [](const std::string& members) { return Refusal(With(kLlama, members)); };
  const auto qwen2 = [](const std::string& members) { return Refusal(With(kQwen2, members)); };
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
      "config.json: rope_scaling.type: \"dynamic\" is not supported, only default, linear and "
      "llama3");
  EXPECT_EQ(
      llama(R"("rope_parameters": {"rope_type": "yarn"})"),
      "config.json: rope_parameters.rope_type: \"yarn\" is not supported, only default, linear "
      "and llama3");
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
  EXPECT_EQ(Refusal(R"({"model_type": "t5"})"),
            "config.json: model_type: \"t5\" is not supported, only bert, dcgan, gpt2, llama, "
            "mistral, qwen2, qwen3, resnet, unet, vit");
  EXPECT_EQ(Refusal(With(kQwen3, R"("use_sliding_window": true)")),
            "config.json: use_sliding_window: only false is supported");
  EXPECT_EQ(Refusal(With(kMistral, R"("attention_bias": true)")),
            "config.json: attention_bias: only false is supported");
  EXPECT_NE(Refusal(With(kMistral, R"("sliding_window": 0)")).find("config.json: sliding_window: "),
            std::string::npos);
  EXPECT_EQ(Refusal(R"({"model_type": "qwen3_moe"})"),
            "config.json: model_type: \"qwen3_moe\" is not supported, only bert, dcgan, gpt2, "
            "llama, mistral, qwen2, qwen3, resnet, unet, vit");
  EXPECT_EQ(llama(R"("num_key_value_heads": 5)"),
            "config.json: model_type: these sizes make no llama model: kv_heads: 5 do not divide "
            "the 32 heads");
}

TEST(HuggingFaceConfig, RefusesSizesThatAreNone) {
  for (const std::string value : {"0", "-1", "1e300", "2.5", "\"12\"", "[]", "3000000000"}) {
    const std::string text = R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12,
        "n_positions": 1024, "vocab_size": 50257, "n_layer": )" +
                             value + "}";
    EXPECT_NE(Refusal(text).find("config.json: n_layer: "), std::string::npos) << value;
  }
  EXPECT_NE(Refusal(R"({"model_type": "gpt2"})").find("n_layer"), std::string::npos);
}

TEST(HuggingFaceConfig, WritesWhatItReads) {
  std::vector<ModelSpec> specs = TinyModels();
  for (const Published& model : PublishedModels()) specs.push_back(model.spec);
  for (ModelSpec& spec : specs) {
    EXPECT_EQ(Read(ConfigJson(*MakeModel(spec))), spec);
    spec.dropout = 0.125;
    spec.norm_eps = 3e-7;
    spec.init_std = 0.013;
    spec.begin_token = 5;
    spec.end_tokens = {7};
    if (spec.family == "gpt2") {
      spec.activation = Activation::kGeluErf;
    } else {
      spec.rope_theta = 123456.5;
      spec.rope_scaling = RopeScaling::Linear(2.5);
      EXPECT_EQ(Read(ConfigJson(*MakeModel(spec))), spec);
      spec.rope_scaling = RopeScaling{
          .factor = 2.5, .low_freq_factor = 1.5, .high_freq_factor = 3.5, .original_sequence = 77};
    }
    EXPECT_EQ(Read(ConfigJson(*MakeModel(spec))), spec);
    spec.end_tokens = {7, 8};
    EXPECT_EQ(Read(ConfigJson(*MakeModel(spec))), spec);
  }
}

}  // namespace
}  // namespace plimsoll::models
