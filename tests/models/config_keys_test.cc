#include "models/config_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "models/huggingface.h"
#include "tests/support/expect_error.h"
#include "tests/support/key_walk.h"
#include "tests/support/temp_folder.h"

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
  json qwen3 = llama, mistral = llama, phi3 = llama, gemma2 = llama;
  phi3["model_type"] = "phi3";
  qwen3.update({{"model_type", "qwen3"}, {"num_key_value_heads", 1}});
  mistral.update({{"model_type", "mistral"}, {"num_key_value_heads", 1}});
  gemma2.update({{"model_type", "gemma2"}, {"num_key_value_heads", 1}});
  json gemma3 = gemma2;
  gemma3["model_type"] = "gemma3_text";
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
      {"qwen3", qwen3},
      {"mistral", mistral},
      {"phi3", phi3},
      {"gemma2", gemma2},
      {"gemma3_text", gemma3},
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
    WalkKeys({.rules = rules,
              .valid = config,
              .read = [](const json& edited) { return ConfigJson(*Read(edited)); },
              .refuses_unknown = false});
  }
}

// What Plimsoll writes it reads.
TEST(ConfigKeys, KnowAllThatIsWritten) {
  for (const auto& [name, config] : Configs()) {
    const std::string written = ConfigJson(*Read(config));
    EXPECT_EQ(ConfigJson(*Read(json::parse(written))), written) << name;
  }
}

// What a run file may not say, a folder may not either: sizes of no model, numbers that float32
// doesn't hold, problem types that their classes contradict.
TEST(ConfigKeys, ValuesOutOfRangeAreRefused) {
  const std::map<std::string, json> configs = Configs();
  const auto refusal = [&](const std::string& family, const char* key, const json& value) {
    json config = configs.at(family);
    config[key] = value;
    TempFolder folder;
    folder.Write("config.json", config.dump());
    return UserErrorOf([&] { ModelFromHuggingFace(folder.path()); });
  };
  for (const auto& [family, key, value] : std::vector<std::tuple<std::string, const char*, json>>{
           {"dcgan", "latent", 0},
           {"dcgan", "generator_features", 0},
           {"resnet", "classes", -3},
           {"resnet", "image_size", int64_t{1} << 32},
           {"unet", "levels", 0},
           {"unet", "features", 0},
           {"unet", "convolutions", 0}}) {
    EXPECT_THAT(refusal(family, key, value), testing::HasSubstr("out of range")) << key;
  }
  EXPECT_THAT(refusal("bert", "hidden_dropout_prob", 1e-60), testing::HasSubstr("float32"));
  EXPECT_THAT(refusal("vit", "image_size", 1000000000), testing::HasSubstr("image_size"));
  json names;
  for (int i = 0; i < 3; ++i) names[std::to_string(i)] = "class";
  json classifier = configs.at("vit");
  classifier["problem_type"] = "regression";
  classifier["id2label"] = names;
  TempFolder folder;
  folder.Write("config.json", classifier.dump());
  EXPECT_THAT(UserErrorOf([&] { ModelFromHuggingFace(folder.path()); }),
              testing::HasSubstr("problem_type: regression"));
  EXPECT_THAT(refusal("vit", "id2label", {{"0", "a"}, {"2", "b"}}),
              testing::HasSubstr("id2label: names 2 classes, but has no name for 1"));
}

TEST(ConfigKeys, FoldersOfOtherProgramsAreNamed) {
  for (const char* const name : {"vit_tiny_patch16_224", "deit_tiny_patch16_224"}) {
    ExpectUserError(
        [&] {
          Read({{"architecture", name}, {"pretrained_cfg", {{"crop_pct", 0.9}}}});
        },
        {"config.json: architecture:", "timm", "timm_vit.py"});
  }
  ExpectUserError(
      [] {
        Read({{"model_type", "resnet"}, {"hidden_sizes", {64, 128}}, {"depths", {2, 2}}});
      },
      {"config.json: hidden_sizes:", "a ResNet of transformers", "resnet_to_safetensors.py"});
}

}  // namespace
}  // namespace plimsoll::models
