#include "adapters/modules_to_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "formats/json.h"
#include "models/huggingface.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"

namespace plimsoll::adapters {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Strings = std::vector<std::string>;

std::unique_ptr<models::Model> Bert(const std::string& task) {
  Settings settings;
  settings.Set("task", task, "test");
  settings.Set("sequence", int64_t{8}, "test");
  if (task == "classification") settings.Set("classes", int64_t{3}, "test");
  return models::ModelFromConfig(
      formats::JsonObject::FromText(
          R"({"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1,
              "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 20,
              "max_position_embeddings": 8})",
          "config.json"),
      settings);
}

std::unique_ptr<models::Model> Llama(bool tied) {
  return models::MakeModel(models::LlamaSpec({1, 8, 2, 1, 6, 10, 20, 4, tied}));
}

Strings Selected(const models::Model& model, const Strings& names) {
  Strings selected;
  for (const models::ParameterInfo& parameter : SelectSaved(model, names)) {
    selected.push_back(parameter.name);
  }
  return selected;
}

TEST(SelectSaved, TakesNamesOfModulesTheirContainersAndPatterns) {
  const auto bert = Bert("classification");
  const Strings head = {"pooler.dense.weight", "pooler.dense.bias", "classifier.weight",
                        "classifier.bias"};
  EXPECT_EQ(Selected(*bert, {"classifier", "bert.pooler.dense"}), head);
  EXPECT_EQ(Selected(*bert, {"pooler", "classif*"}), head);
  EXPECT_THAT(Selected(*bert, {"embeddings.LayerNorm"}),
              ElementsAre("embed.norm.weight", "embed.norm.bias"));
  EXPECT_THAT(Selected(*Llama(false), {"lm_head", "layers.0.self_attn.*_proj"}),
              ElementsAre("block.0.attn.qkv.weight", "block.0.attn.proj.weight", "head.weight"));
  EXPECT_THAT(Selected(*bert, {}), IsEmpty());
}

TEST(SelectSaved, RefusesWhatItCannotSave) {
  const auto refused = [](const models::Model& model, const Strings& names,
                          std::initializer_list<std::string_view> parts) {
    ExpectUserError([&] { SelectSaved(model, names); }, parts);
  };
  refused(*Bert("classification"), {"classifier", "score"},
          {"no module is called 'score'", "bert.pooler.dense", "classifier"});
  // q, k and v are one weight here.
  refused(
      *Llama(false), {"q_proj"},
      {"make one weight with model.layers.0.self_attn.k_proj and model.layers.0.self_attn.v_proj",
       "name all"});
  // PEFT would train a copy that is not the decoder.
  refused(*Bert("masked_lm"), {"word_embeddings"},
          {"bert.embeddings.word_embeddings is one weight with cls.predictions.decoder", "a copy"});
  refused(*Bert("masked_lm"), {"cls"},
          {"cls.predictions.bias cannot be trained alone", "cls.predictions.decoder.weight"});
}

TEST(ModulesOf, NamesTheModulesAsFilesDo) {
  const auto modules = [](const models::Model& model, const Strings& names) {
    return ModulesOf(model, SelectSaved(model, names));
  };
  EXPECT_THAT(modules(*Bert("classification"), {"pooler", "classifier"}),
              ElementsAre("bert.pooler.dense", "classifier"));
  EXPECT_THAT(modules(*Llama(false), {"lm_head", "embed_tokens"}),
              ElementsAre("lm_head", "model.embed_tokens"));
}

// PEFT ties a head of that name; either name means both.
TEST(ModulesOf, NamesATiedHeadBesidesTheEmbedding) {
  const auto model = Llama(true);
  for (const char* name : {"embed_tokens", "lm_head"}) {
    const auto saved = SelectSaved(*model, {name});
    ASSERT_EQ(saved.size(), 1u) << name;
    EXPECT_EQ(saved[0].name, "embed.token.weight");
    EXPECT_THAT(ModulesOf(*model, saved), ElementsAre("lm_head", "model.embed_tokens"));
    EXPECT_TRUE(HasTiedHead(*model, saved));
  }
  EXPECT_FALSE(HasTiedHead(*model, SelectSaved(*model, {"model.norm"})));
  EXPECT_FALSE(HasTiedHead(*Llama(false), SelectSaved(*Llama(false), {"embed_tokens"})));
}

TEST(FrozenParameters, AreAllButTheSavedOnes) {
  const auto model = Llama(false);
  Lora lora;
  lora.saved = SelectSaved(*model, {"lm_head"});
  const Strings frozen = FrozenParameters(*model, lora);
  EXPECT_EQ(frozen.size(), model->parameters().size() - 1);
  EXPECT_THAT(frozen, testing::Not(testing::Contains("head.weight")));
  lora.rank = 2;
  lora.layers = SelectLayers(*model, {"o_proj"});
  const std::vector<models::ParameterInfo> trained = TrainedParameters(lora);
  ASSERT_EQ(trained.size(), 3u);
  EXPECT_EQ(trained.back().name, "head.weight");
}

}  // namespace
}  // namespace plimsoll::adapters
