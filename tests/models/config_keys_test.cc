#include "models/config_keys.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "models/huggingface.h"
#include "tests/support/expect_error.h"
#include "tests/support/key_walk.h"

namespace plimsoll::models {
namespace {

using nlohmann::json;

std::unique_ptr<Model> Read(const json& config) {
  Settings settings;
  return ModelFromConfig(formats::JsonObject::FromText(config.dump(), "config.json"), settings);
}

// A small model of each family, as its config.json.
std::map<std::string, json> Configs() {
  const json encoder = {{"num_hidden_layers", 1},
                        {"hidden_size", 4},
                        {"num_attention_heads", 2},
                        {"intermediate_size", 8}};
  json llama = encoder, bert = encoder, vit = encoder;
  llama.update({{"model_type", "llama"}, {"vocab_size", 7}, {"max_position_embeddings", 9}});
  json qwen2 = llama;
  qwen2["model_type"] = "qwen2";
  bert.update({{"model_type", "bert"}, {"vocab_size", 7}});
  json classifier = bert;
  classifier["architectures"] = {"BertForSequenceClassification"};
  vit.update({{"model_type", "vit"}, {"image_size", 8}, {"patch_size", 4}});
  return {
      {"gpt2",
       {{"model_type", "gpt2"},
        {"n_layer", 1},
        {"n_embd", 4},
        {"n_head", 2},
        {"n_positions", 5},
        {"vocab_size", 7}}},
      {"llama", llama},
      {"qwen2", qwen2},
      {"bert", bert},
      {"bert, a classifier", classifier},
      {"vit", vit},
      {"resnet", {{"model_type", "resnet"}, {"depth", 20}, {"image_size", 32}, {"classes", 3}}},
      {"unet", {{"model_type", "unet"}, {"image_height", 32}, {"image_width", 32}, {"classes", 3}}},
      {"dcgan", {{"model_type", "dcgan"}, {"image_size", 32}}}};
}

TEST(ConfigKeys, EachIsReadRefusedOrHarmless) {
  for (const auto& [name, config] : Configs()) {
    SCOPED_TRACE(name);
    std::vector<formats::KeyRule> rules =
        ConfigKeys(*FindFamily(config.at("model_type").get<std::string>()));
    // Classes are read of a classifier alone.
    if (name == "bert") {
      std::erase_if(rules, [](const formats::KeyRule& rule) {
        return rule.key == "num_labels" || rule.key == "problem_type" ||
               rule.key == "classifier_dropout";
      });
    } else if (name == "bert, a classifier") {
      std::erase_if(rules,
                    [](const formats::KeyRule& rule) { return rule.key == "tie_word_embeddings"; });
    }
    WalkKeys({.rules = rules, .valid = config, .read = [](const json& edited) {
                return ConfigJson(*Read(edited));
              }});
  }
}

// What Plimsoll writes it reads.
TEST(ConfigKeys, KnowAllThatIsWritten) {
  for (const auto& [name, config] : Configs()) {
    const std::string written = ConfigJson(*Read(config));
    EXPECT_EQ(ConfigJson(*Read(json::parse(written))), written) << name;
  }
}

TEST(ConfigKeys, FoldersOfOtherProgramsAreNamed) {
  ExpectUserError(
      [] {
        Read({{"architecture", "vit_tiny_patch16_224"}, {"pretrained_cfg", {{"crop_pct", 0.9}}}});
      },
      {"config.json: architecture:", "timm", "timm_vit.py"});
  ExpectUserError(
      [] {
        Read({{"model_type", "resnet"}, {"hidden_sizes", {64, 128}}, {"depths", {2, 2}}});
      },
      {"config.json: hidden_sizes:", "a ResNet of transformers", "resnet_to_safetensors.py"});
}

}  // namespace
}  // namespace plimsoll::models
