// Rates of dropout by place: each key moves its own ops alone, and config.json says each rate by
// transformers' keys.
#include "models/dropout_rates.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/json.h"
#include "graph/program.h"
#include "models/family.h"
#include "models/huggingface.h"
#include "tests/support/expect_error.h"

namespace plimsoll::models {
namespace {

using Rates = std::map<std::string, double>;
using OfOps = std::map<std::string, std::set<double>>;

Settings GivenRates(const Rates& rates) {
  Settings settings;
  for (const auto& [name, rate] : rates) settings.Set(name, rate, "test");
  return settings;
}

std::unique_ptr<Model> ModelWith(const std::string& family_name, const Rates& rates) {
  const Family& family = *FindFamily(family_name);
  Settings settings = GivenRates(rates);
  const bool images = family_name == "vit";
  for (const char* name : {"layers", "heads"}) settings.Set(name, int64_t{2});
  settings.Set("width", int64_t{8});
  settings.Set(images ? "image_size" : "vocab", int64_t{32});
  if (!images) settings.Set("sequence", int64_t{6});
  if (family_name == "bert") settings.Set("task", std::string("classification"));
  if (images || family_name == "bert") settings.Set("classes", int64_t{3});
  Complete(family, settings);
  return MakeModel(family, settings);
}

// The rates that ops of each place have in training.
OfOps RatesOfOps(const Model& model) {
  graph::Program program;
  graph::Builder builder(program);
  model.Build(builder, {.batch = 2, .sequence = model.family() == "vit" ? 1 : 6}, Head::kLoss,
              true);
  OfOps rates;
  for (const graph::Node& node : program.nodes()) {
    if (node.op->name == "attention") {
      rates["attention"].insert(node.attributes.GetReal("dropout"));
    } else if (node.op->name == "dropout") {
      const std::string& name = program.tensor(node.outputs[0]).name;
      const char* const place = name == "embed.dropout"    ? "embedding"
                                : name == "pooler.dropout" ? "classifier"
                                                           : "hidden";
      rates[place].insert(node.attributes.GetReal("p"));
    }
  }
  return rates;
}

TEST(DropoutRates, EachKeyMovesItsOwnOps) {
  const Rates all = {{"attention_dropout", 0.1}, {"hidden_dropout", 0.2}};
  Rates three = all;
  three["embedding_dropout"] = 0.3;
  EXPECT_EQ(RatesOfOps(*ModelWith("gpt2", three)),
            (OfOps{{"attention", {0.1}}, {"hidden", {0.2}}, {"embedding", {0.3}}}));
  const OfOps of_vit = {{"attention", {0.1}}, {"hidden", {0.2}}, {"embedding", {0.2}}};
  EXPECT_EQ(RatesOfOps(*ModelWith("vit", all)), of_vit);
  OfOps of_bert = of_vit;
  of_bert["classifier"] = {0.2};
  EXPECT_EQ(RatesOfOps(*ModelWith("bert", all)), of_bert);
  Rates classifier = all;
  classifier["classifier_dropout"] = 0.3;
  of_bert["classifier"] = {0.3};
  EXPECT_EQ(RatesOfOps(*ModelWith("bert", classifier)), of_bert);
  EXPECT_EQ(RatesOfOps(*ModelWith("bert", {{"classifier_dropout", 0.3}})),
            (OfOps{{"attention", {0}}, {"classifier", {0.3}}}));
  for (const char* family :
       {"llama", "qwen2", "qwen3", "mistral", "phi3", "gemma2", "gemma3_text"}) {
    EXPECT_EQ(RatesOfOps(*ModelWith(family, {{"attention_dropout", 0.1}})),
              (OfOps{{"attention", {0.1}}}));
  }
}

// Of a BERT, the classifier's rate follows the hidden one.
OfOps Expected(const std::string& family, OfOps rates) {
  if (family == "bert" && rates.contains("hidden")) rates["classifier"] = rates["hidden"];
  return rates;
}

TEST(DropoutRates, FollowTheKeyForAll) {
  for (const char* family : {"gpt2", "bert", "vit"}) {
    EXPECT_EQ(RatesOfOps(*ModelWith(family, {{"dropout", 0.4}})),
              Expected(family, {{"attention", {0.4}}, {"hidden", {0.4}}, {"embedding", {0.4}}}));
    EXPECT_EQ(RatesOfOps(*ModelWith(family, {{"dropout", 0.4}, {"attention_dropout", 0.0}})),
              Expected(family, {{"attention", {0.0}}, {"hidden", {0.4}}, {"embedding", {0.4}}}));
    EXPECT_EQ(RatesOfOps(*ModelWith(family, {{"attention_dropout", 0.4}})),
              (OfOps{{"attention", {0.4}}}));
  }
  EXPECT_EQ(RatesOfOps(*ModelWith("gpt2", {{"embedding_dropout", 0.4}})),
            (OfOps{{"attention", {0.0}}, {"embedding", {0.4}}}));
}

TEST(DropoutRates, OfNothingNeedNoRandomNumbers) {
  for (const char* family : {"gpt2", "bert", "vit", "llama"}) {
    const auto model = ModelWith(family, {});
    EXPECT_FALSE(model->dropout().any());
    graph::Program program;
    graph::Builder builder(program);
    model->Build(builder, {.batch = 2, .sequence = model->family() == "vit" ? 1 : 6}, Head::kLoss,
                 true);
    EXPECT_EQ(program.Find("rng"), graph::kNoTensor) << family;
  }
}

struct Keys {
  std::string family;
  std::map<std::string, std::string> names;  // in config.json, by setting
};

std::vector<Keys> KeysOfTransformers() {
  const std::map<std::string, std::string> encoder = {
      {"attention_dropout", "attention_probs_dropout_prob"},
      {"hidden_dropout", "hidden_dropout_prob"}};
  return {{"gpt2",
           {{"attention_dropout", "attn_pdrop"},
            {"hidden_dropout", "resid_pdrop"},
            {"embedding_dropout", "embd_pdrop"}}},
          {"bert", encoder},
          {"vit", encoder},
          {"llama", {{"attention_dropout", "attention_dropout"}}},
          {"qwen2", {{"attention_dropout", "attention_dropout"}}},
          {"qwen3", {{"attention_dropout", "attention_dropout"}}},
          {"mistral", {{"attention_dropout", "attention_dropout"}}},
          {"phi3", {{"attention_dropout", "attention_dropout"}}},
          {"gemma2", {{"attention_dropout", "attention_dropout"}}},
          {"gemma3_text", {{"attention_dropout", "attention_dropout"}}}};
}

// A model of its config.json, with these settings beside the weights.
DropoutRates Loaded(const std::string& json, const Rates& given) {
  Settings settings = GivenRates(given);
  const auto model = ModelFromConfig(formats::JsonObject::FromText(json, "config.json"), settings);
  EXPECT_EQ(DropoutRatesOf(settings), model->dropout());
  return model->dropout();
}

TEST(DropoutRates, GoIntoConfigJsonAndBack) {
  for (const Keys& keys : KeysOfTransformers()) {
    SCOPED_TRACE(keys.family);
    Rates rates;
    for (const auto& [setting, name] : keys.names) {
      rates[setting] = 0.125 * static_cast<double>(1 + rates.size());
    }
    const auto model = ModelWith(keys.family, rates);
    const std::string text = ConfigJson(*model);
    const nlohmann::json config = nlohmann::json::parse(text);
    for (const auto& [setting, name] : keys.names) EXPECT_EQ(config.at(name), rates.at(setting));
    EXPECT_EQ(Loaded(text, {}), model->dropout());

    // What a run says beside the weights comes first, a place before all.
    EXPECT_EQ(Loaded(text, {{"dropout", 0.5}}), DropoutRates(0.5));
    EXPECT_EQ(Loaded(text, {{"dropout", 0.0}}), DropoutRates(0));
    for (const auto& [setting, name] : keys.names) {
      Rates changed = rates;
      changed[setting] = 0.75;
      EXPECT_EQ(Loaded(text, {{setting, 0.75}}), ModelWith(keys.family, changed)->dropout());
      changed = {{setting, 0.75}};
      for (const auto& [other, unused] : keys.names) changed.try_emplace(other, 0.5);
      EXPECT_EQ(Loaded(text, {{setting, 0.75}, {"dropout", 0.5}}),
                ModelWith(keys.family, changed)->dropout());
    }
  }
}

// As transformers writes it: null follows hidden_dropout_prob.
TEST(DropoutRates, OfAClassifierIsTheFilesUnlessAllAreGiven) {
  const auto model = ModelWith("bert", {{"hidden_dropout", 0.25}, {"classifier_dropout", 0.5}});
  const std::string text = ConfigJson(*model);
  EXPECT_EQ(nlohmann::json::parse(text).at("classifier_dropout"), 0.5);
  EXPECT_EQ(Loaded(text, {}).classifier, 0.5);
  EXPECT_EQ(Loaded(text, {{"hidden_dropout", 0.125}}).classifier, 0.5);
  EXPECT_EQ(Loaded(text, {{"dropout", 0.125}}).classifier, 0.125);
  EXPECT_EQ(Loaded(text, {{"dropout", 0.125}, {"classifier_dropout", 0.75}}).classifier, 0.75);

  const std::string follows = ConfigJson(*ModelWith("bert", {{"hidden_dropout", 0.25}}));
  EXPECT_TRUE(nlohmann::json::parse(follows).at("classifier_dropout").is_null());
  EXPECT_EQ(Loaded(follows, {}).classifier, 0.25);
  EXPECT_EQ(Loaded(follows, {{"hidden_dropout", 0.125}}).classifier, 0.125);

  nlohmann::json wrong = nlohmann::json::parse(text);
  wrong["classifier_dropout"] = 1.5;
  ExpectUserError([&] { Loaded(wrong.dump(), {}); },
                  {"config.json: classifier_dropout", "from 0 to below 1, not 1.5"});
}

TEST(DropoutRates, OfPlacesThatAModelDoesNotKnowAreRefused) {
  const auto refusal = [](const std::string& family, const std::string& setting) {
    const std::string text = ConfigJson(*ModelWith(family, {}));
    return MessageOf<SettingError>([&] { Loaded(text, {{setting, 0.1}}); }).value_or("");
  };
  EXPECT_EQ(refusal("bert", "embedding_dropout"),
            "has no meaning for the folder's model, of family bert; remove it");
  EXPECT_EQ(refusal("llama", "hidden_dropout"),
            "has no meaning for the folder's model, of family llama; remove it");
}

}  // namespace
}  // namespace plimsoll::models
