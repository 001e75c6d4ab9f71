// Models with more tokens than the checkpoint that they start from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/json.h"
#include "models/huggingface.h"
#include "tests/models/loaded_weights.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

using testing::ElementsAre;

constexpr int64_t kStored = 17, kWanted = 20;

Settings Vocabulary(int64_t tokens) {
  Settings settings;
  settings.Set("vocab", tokens, "test");
  settings.Set("sequence", int64_t{6}, "test");
  return settings;
}

// Writes a checkpoint whose numbers differ.
void Write(const std::string& folder, const Model& model) {
  std::vector<float> values;
  SaveWeights(folder, model, [&](const ParameterInfo& parameter) -> const float* {
    values.clear();
    for (int64_t i = 0; i < parameter.shape.elements(); ++i) {
      values.push_back(static_cast<float>((i * 7919 + std::ssize(parameter.name)) % 1000));
    }
    return values.data();
  });
}

void ExpectGrown(const std::string& folder) {
  Settings settings = Vocabulary(kWanted);
  const auto source = ModelFromHuggingFace(folder), grown = ModelFromHuggingFace(folder, settings);
  EXPECT_EQ(grown->new_tokens().first, kStored);
  EXPECT_EQ(grown->new_tokens().end, kWanted);
  EXPECT_EQ(grown->input_bounds().contains("tokens") ? grown->input_bounds().at("tokens")
                                                     : TextSizesOf(*grown).vocab,
            kWanted);
  const LoadedWeights before = ReadWeights(folder, *source);
  for (const Misfits misfits : {Misfits::kFitted, Misfits::kAllowed}) {
    const LoadedWeights after = LoadPieces(folder, *grown, {.buffer_bytes = 100}, misfits);
    EXPECT_EQ(after, ReadWeights(folder, *grown, misfits));
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, values] : after) {
      const std::vector<float>& old = before.at(name);
      const auto& tables = grown->new_tokens().tables;
      if (std::ranges::find(tables, name) == tables.end()) {
        EXPECT_EQ(values, old) << name;
        continue;
      }
      const size_t width = old.size() / kStored;
      ASSERT_EQ(values.size(), width * kWanted) << name;
      EXPECT_TRUE(std::equal(old.begin(), old.end(), values.begin())) << name;
      for (size_t i = 0; i < width; ++i) {
        double mean = 0;
        for (size_t row = 0; row < kStored; ++row) mean += old[row * width + i] / kStored;
        for (size_t row = kStored; row < kWanted; ++row) {
          EXPECT_FLOAT_EQ(values[row * width + i], mean) << name;
        }
      }
    }
  }
  ExpectUserError([&] { ReadWeights(folder, *grown); }, {"config.json asks for"});
  EXPECT_EQ(nlohmann::json::parse(ConfigJson(*grown)).at("vocab_size"), kWanted);
}

TEST(NewTokens, BeginAtTheMeanOfTheOthers) {
  for (const ModelSpec& spec : TinyModels()) {
    SCOPED_TRACE(spec.family + (spec.tied ? ", tied" : ""));
    const TempFolder folder;
    Write(folder.path(), *MakeModel(spec));
    ExpectGrown(folder.path());
  }
}

TEST(NewTokens, HaveABiasInBert) {
  Settings settings;
  settings.Set("sequence", int64_t{6}, "test");
  const auto model =
      ModelFromConfig(formats::JsonObject::FromText(
                          R"({"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1,
              "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 17,
              "max_position_embeddings": 8})",
                          "config.json"),
                      settings);
  const TempFolder folder;
  Write(folder.path(), *model);
  ExpectGrown(folder.path());
  Settings wanted = Vocabulary(kWanted);
  EXPECT_THAT(ModelFromHuggingFace(folder.path(), wanted)->new_tokens().tables,
              ElementsAre("embed.token.weight", "head.bias"));
}

// Weights without heads have no bias to make rows from.
TEST(NewTokens, TakeAFreshBiasWhereThereIsNone) {
  const std::string folder = "tests/models/encoders/bert-classification";
  Settings settings = Vocabulary(25);
  settings.Set("task", std::string("masked_lm"), "test");
  const auto model = ModelFromHuggingFace(folder, settings);
  std::vector<std::string> fresh;
  for (const ParameterInfo& parameter : FreshParameters(folder, *model)) {
    fresh.push_back(parameter.name);
  }
  EXPECT_THAT(fresh, testing::Contains("head.bias"));
  EXPECT_THAT(fresh, testing::Not(testing::Contains("embed.token.weight")));
}

TEST(NewTokens, AreNeverFewerThanTheCheckpoints) {
  const TempFolder folder;
  Write(folder.path(), *MakeModel(Gpt2Spec(1, 8, 2, kStored, 6)));
  Settings settings = Vocabulary(kStored - 1);
  EXPECT_THAT(SettingErrorOf("vocab", [&] { ModelFromHuggingFace(folder.path(), settings); }),
              testing::HasSubstr("16 tokens are fewer than the checkpoint's 17"));
  Settings same = Vocabulary(kStored);
  EXPECT_EQ(ReadWeights(folder.path(), *ModelFromHuggingFace(folder.path(), same)),
            ReadWeights(folder.path(), *ModelFromHuggingFace(folder.path())));
}

// A table that isn't what config.json says is not a smaller vocabulary.
TEST(NewTokens, AreMadeFromTheTokensOfConfigJsonAlone) {
  const TempFolder folder;
  Write(folder.path(), *MakeModel(Gpt2Spec(1, 8, 2, kStored, 6)));
  nlohmann::json config = nlohmann::json::parse(folder.Read("config.json"));
  config["vocab_size"] = kStored - 1;
  folder.Write("config.json", config.dump());
  Settings settings = Vocabulary(kWanted);
  const auto model = ModelFromHuggingFace(folder.path(), settings);
  ExpectUserError([&] { ReadWeights(folder.path(), *model, Misfits::kAllowed); },
                  {"model.safetensors", "wte.weight", "17 rows", "16 tokens of config.json"});
}

}  // namespace
}  // namespace plimsoll::models
