#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/huggingface.h"
#include "tests/models/config_text.h"
#include "tests/models/published.h"

namespace plimsoll::models {
namespace {

// As published, where every layer's type follows from its number.
constexpr char kGemma2[] =
    R"({"model_type": "gemma2", "num_hidden_layers": 26, "hidden_size": 2304,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "intermediate_size": 9216, "vocab_size": 256000, "max_position_embeddings": 8192,
        "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0, "rope_theta": 10000.0, "cache_implementation": "hybrid"})";
constexpr char kGemma3[] =
    R"({"model_type": "gemma3_text", "num_hidden_layers": 26, "hidden_size": 1152,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
        "intermediate_size": 6912, "vocab_size": 262144, "max_position_embeddings": 32768,
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
        "sliding_window": 512, "final_logit_softcapping": null)";
constexpr char kGemma3Old[] =
    R"(, "attn_logit_softcapping": null, "sliding_window_pattern": 6, "rope_theta": 1000000, "rope_local_base_freq": 10000)";

std::string Gemma3(const std::string& members) { return kGemma3 + members + "}"; }

// The same model as versions of transformers from 5 on write it: types by layer.
std::string TypesOf(int64_t layers, int64_t pattern) {
  std::string types;
  for (int64_t i = 1; i <= layers; ++i) {
    types += fmt::format("{}\"{}\"", i == 1 ? "" : ", ",
                         i % pattern == 0 ? "full_attention" : "sliding_attention");
  }
  return fmt::format(R"(, "layer_types": [{}])", types);
}
std::string RopeOf(const std::string& full, const std::string& sliding) {
  return R"(, "rope_parameters": {"full_attention": {)" + full + R"(}, "sliding_attention": {)" +
         sliding + "}}";
}

TEST(GemmaConfig, ReadsGemma2) {
  ModelSpec expected = Gemma2Spec({26, 2304, 8, 4, 256, 9216, 256000, 8192, true});
  EXPECT_EQ(ReadConfig(kGemma2), expected);
  EXPECT_EQ(ReadConfig(WithMembers(kGemma2, TypesOf(26, 2).substr(2))), expected);
  // Without the keys, as in transformers.
  EXPECT_EQ(ReadConfig(R"({"model_type": "gemma2", "num_hidden_layers": 26, "hidden_size": 2304,
                     "intermediate_size": 9216})"),
            expected);
  EXPECT_EQ(ReadConfig(WithMembers(kGemma2, R"("attention_bias": true)")).attention_bias, true);
  EXPECT_FALSE(ReadConfig(WithMembers(kGemma2, R"("tie_word_embeddings": false)")).tied);
  // null: no cap.
  const ModelSpec bare = ReadConfig(
      R"({"model_type": "gemma2", "num_hidden_layers": 3, "hidden_size": 16, "head_dim": 4,
          "intermediate_size": 9, "query_pre_attn_scalar": 144, "sliding_window": 7,
          "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
          "attn_logit_softcapping": null, "final_logit_softcapping": null,
          "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5e5}})");
  EXPECT_EQ(bare.attn_logit_softcapping, 0);
  EXPECT_EQ(bare.final_logit_softcapping, 0);
  EXPECT_EQ(bare.query_pre_attn_scalar, 144);
  EXPECT_EQ(bare.window, 7);
  EXPECT_EQ(bare.windowed, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(bare.rope_theta, 5e5);
  EXPECT_EQ(bare.rope_scaling, RopeScaling::Linear(2));
}

TEST(GemmaConfig, ReadsGemma3) {
  ModelSpec expected = Gemma3Spec({26, 1152, 4, 1, 256, 6912, 262144, 32768, true}, 512);
  EXPECT_EQ(ReadConfig(Gemma3(kGemma3Old)), expected);
  EXPECT_EQ(
      ReadConfig(Gemma3(TypesOf(26, 6) + RopeOf(R"("rope_type": "default", "rope_theta": 1e6)",
                                                R"("rope_type": "default", "rope_theta": 1e4)"))),
      expected);
  EXPECT_EQ(ReadConfig(Gemma3("")), expected);  // as in transformers
  expected.windowed = WindowedLayers(26, 2);
  EXPECT_EQ(ReadConfig(Gemma3(R"(, "sliding_window_pattern": 2)")), expected);
  EXPECT_EQ(ReadConfig(Gemma3(TypesOf(26, 2))), expected);
  // The text part of the larger ones as it is published: nearly all follows from the class.
  expected = Gemma3Spec({34, 2560, 8, 4, 256, 10240, 262208, 131072, true}, 1024);
  expected.rope_scaling = RopeScaling::Linear(8);
  const std::string text =
      R"({"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560,
          "intermediate_size": 10240, "sliding_window": 1024)";
  EXPECT_EQ(ReadConfig(text + R"(, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}})"),
            expected);
  EXPECT_EQ(ReadConfig(text + RopeOf(R"("rope_type": "linear", "factor": 8.0)", "") + "}"),
            expected);
  EXPECT_EQ(ReadConfig(Gemma3(R"(, "rope_local_base_freq": 500)" +
                              RopeOf(R"("rope_theta": 7e5)", R"("rope_theta": 500)")))
                .rope_local_base_freq,
            500);
}

TEST(GemmaConfig, RefusesGemmasThatItCannotSay) {
  const auto gemma2 = [](const std::string& members) {
    return RefusedConfig(WithMembers(kGemma2, members));
  };
  const auto gemma3 = [](const std::string& members) {
    return RefusedConfig(Gemma3(", " + members));
  };
  EXPECT_NE(gemma2(R"("use_bidirectional_attention": true)")
                .find("config.json: use_bidirectional_attention: is true, which is not supported"),
            std::string::npos);
  EXPECT_EQ(RefusedConfig(R"({"model_type": "gemma2", "num_hidden_layers": 2, "hidden_size": 16,
                        "intermediate_size": 9, "hidden_activation": "silu"})"),
            "config.json: hidden_activation: \"silu\" is not supported, only gelu_pytorch_tanh");
  EXPECT_EQ(gemma2(R"("layer_types": ["full_attention"])"),
            "config.json: layer_types: has 1 type, but the model has 26 layers");
  EXPECT_EQ(gemma2(R"("layer_types": ["chunked_attention"])"),
            "config.json: layer_types: \"chunked_attention\" is not supported, only "
            "sliding_attention and full_attention");
  const std::string small = R"({"model_type": "gemma2", "num_hidden_layers": 2, "hidden_size": 16,
                                "intermediate_size": 9, )";
  EXPECT_EQ(RefusedConfig(small + R"("attn_logit_softcapping": 0})"),
            "config.json: attn_logit_softcapping: must be above 0 and at most 10000000, not 0; "
            "null: no cap");
  EXPECT_EQ(RefusedConfig(small + R"("sliding_window": null})"),
            "config.json: sliding_window: null is not supported; give the number of keys, and say "
            "in layer_types which layers see all keys (full_attention)");
  EXPECT_EQ(RefusedConfig(small + R"("num_attention_heads": 12})"),
            "config.json: model_type: these sizes make no gemma2 model: heads: 12 heads do not "
            "divide the width 16, and transformers has no such gemma2; use 8");
  EXPECT_NE(gemma3(R"("attn_logit_softcapping": 50.0)")
                .find("config.json: attn_logit_softcapping: is 50.0, which is not supported"),
            std::string::npos);
  EXPECT_EQ(gemma3(R"("partial_rotary_factor": 0.5)"),
            "config.json: partial_rotary_factor: only 1 is supported");
  EXPECT_EQ(gemma3(R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6})"),
            "config.json: rope_parameters.rope_theta: is no type of layers; give an object for "
            "each of them, full_attention and sliding_attention");
  EXPECT_EQ(gemma3(RopeOf("", R"("rope_type": "linear", "factor": 8)").substr(2)),
            "config.json: rope_parameters.sliding_attention.rope_type: only default is supported "
            "for layers with a window");
  EXPECT_EQ(gemma3(R"("rope_local_base_freq": 500)" + RopeOf("", R"("rope_theta": 1e4)")),
            "config.json: rope_parameters.sliding_attention.rope_theta: is 10000, but "
            "rope_local_base_freq is 500; keep one of the two");
  EXPECT_EQ(gemma3(R"("rope_theta": 5e5)" + RopeOf(R"("rope_theta": 1e6)", "")),
            "config.json: rope_parameters.full_attention.rope_theta: is 1000000, but rope_theta is "
            "500000; keep one of the two");
  EXPECT_EQ(gemma3(R"("rope_scaling": {"rope_type": "linear", "factor": 2})" +
                   RopeOf(R"("rope_type": "linear", "factor": 8)", "")),
            "config.json: rope_scaling: asks for another scaling than "
            "rope_parameters.full_attention; keep one of the two");
  EXPECT_EQ(gemma3(R"("sliding_window_pattern": 6)" + TypesOf(26, 2)),
            "config.json: sliding_window_pattern: is 6, but layer_types has other layers without a "
            "window; remove the one that is wrong");
  EXPECT_EQ(RefusedConfig(R"({"model_type": "gemma3", "text_config": {}})"),
            "config.json: model_type: \"gemma3\" sees images, too; a script of Plimsoll writes a "
            "folder of its text part: python3 tools/gemma3_text.py FOLDER OUT");
}

// In a form that all versions of transformers with these families read.
TEST(GemmaConfig, WritesGemma3ForAllVersions) {
  ModelSpec spec = Gemma3Spec({7, 12, 4, 2, 6, 10, 17, 9, true}, 5);
  spec.rope_scaling = RopeScaling::Linear(8);
  const auto written = nlohmann::json::parse(ConfigJson(*MakeModel(spec)));
  EXPECT_EQ(written.at("rope_scaling"),
            nlohmann::json::parse(R"({"rope_type": "linear", "factor": 8.0})"));
  EXPECT_EQ(written.at("rope_theta"), 1e6);
  EXPECT_EQ(written.at("rope_local_base_freq"), 1e4);
  EXPECT_EQ(written.at("sliding_window_pattern"), 6);
  EXPECT_EQ(written.at("layer_types").size(), 7u);
  EXPECT_EQ(written.at("architectures"), nlohmann::json::parse(R"(["Gemma3ForCausalLM"])"));
  EXPECT_FALSE(written.contains("hidden_act"));
  spec.windowed = {true, false, false, true, true, true, true};  // of no pattern
  EXPECT_FALSE(
      nlohmann::json::parse(ConfigJson(*MakeModel(spec))).contains("sliding_window_pattern"));
}

}  // namespace
}  // namespace plimsoll::models
