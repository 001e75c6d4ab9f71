// Checkpoints of BERT and ViT that transformers wrote: the same logits and losses as in
// transformers, whole in both directions, and training for another task starts from them. encoders/
// is made by check_encoders.py --write-fixtures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/model_safetensors.h"
#include "models/huggingface.h"
#include "tests/models/forward.h"
#include "tests/models/loaded_weights.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using Strings = std::vector<std::string>;

const std::string kFolder = "tests/models/encoders/";
const char* const kHeads[] = {"bert-masked-lm",
                              "bert-pretraining",
                              "bert-classification",
                              "bert-gelu-new",
                              "bert-multi-label",
                              "bert-regression",
                              "vit",
                              "vit-multi-label"};

// Which logits belong to tokens: those of padding are nobody's business.
bool Counts(const GivenBatch& given, size_t logits, size_t index) {
  if (given.batch.sequence == 1) return true;
  const std::vector<double>& lengths = given.data.at("lengths");
  const size_t rows = static_cast<size_t>(given.batch.batch * given.batch.sequence);
  const size_t vocab = 19;
  if (logits != rows * vocab) return true;  // of classes
  const size_t row = index / vocab, position = row / lengths.size();
  return static_cast<double>(position) < lengths[row % lengths.size()];
}

TEST(EncoderFiles, LogitsAndLossAgree) {
  int cases = 0;
  for (const std::string name : kHeads) {
    const JsonObject expected = JsonObject::FromFile(kFolder + name + "/expected.json");
    for (const std::string& key : expected.Keys()) {
      SCOPED_TRACE(name + " " + key);
      const JsonObject json = expected.RequireObject(key);
      const GivenBatch given(json);
      const std::vector<double> reference = json.RequireFloats("logits");
      const std::vector<float> logits =
          Forward(kFolder + name, given.batch, Head::kLogits, given.settings).Run(given.data);
      ASSERT_EQ(logits.size(), reference.size());
      double largest = 0, difference = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        if (!Counts(given, logits.size(), i)) continue;
        largest = std::max(largest, std::abs(reference[i]));
        difference = std::max(difference, std::abs(logits[i] - reference[i]));
      }
      EXPECT_GT(largest, 0.5);
      // Both sum in float32, in different orders.
      EXPECT_LT(difference, 5e-6 * largest);
      const std::vector<float> loss =
          Forward(kFolder + name, given.batch, Head::kLoss, given.settings).Run(given.targets);
      EXPECT_NEAR(loss.front() / json.RequireFloat("loss"), 1, 5e-6);
      ++cases;
    }
  }
  EXPECT_EQ(cases, 10);  // a ViT sees images of three sizes
}

// What training begins with: the weights, and what has to start afresh.
struct Start {
  explicit Start(const std::string& folder, Settings settings = {})
      : model(ModelFromHuggingFace(folder, settings)) {
    weights = LoadPieces(folder, *model, {.buffer_bytes = 1000}, Misfits::kAllowed);
    EXPECT_EQ(weights, ReadWeights(folder, *model, Misfits::kAllowed)) << folder;
    for (const ParameterInfo& parameter : model->Stored()) {
      if (!weights.contains(parameter.name)) fresh.push_back(parameter.name);
    }
  }

  std::unique_ptr<Model> model;
  LoadedWeights weights;
  Strings fresh;
};

Settings Given(const std::map<std::string, SettingValue>& values) {
  Settings settings;
  for (const auto& [name, value] : values) settings.Set(name, value, "test");
  return settings;
}

Settings Classification(int64_t classes) {
  return Given({{"task", std::string("classification")}, {"classes", classes}});
}

// Every weight that both have is the same, and `start` has no others.
void ExpectTakenFrom(const Start& start, const Start& source, const Strings& but = {}) {
  for (const auto& [name, weights] : start.weights) {
    if (std::ranges::find(but, name) != but.end()) continue;
    ASSERT_TRUE(source.weights.contains(name)) << name;
    EXPECT_EQ(weights, source.weights.at(name)) << name;
  }
}

TEST(EncoderFiles, SurviveReadingAndWriting) {
  for (const std::string name : kHeads) {
    const Start start(kFolder + name);
    EXPECT_EQ(start.fresh, Strings());
    const TempFolder copy;
    SaveWeights(copy.path(), *start.model, [&](const ParameterInfo& parameter) -> const float* {
      return start.weights.at(parameter.name).data();
    });
    EXPECT_EQ(ModelFromHuggingFace(copy.path())->description(), start.model->description());
    const formats::ModelSafetensors original(kFolder + name), written(copy.path());
    EXPECT_EQ(written.Names(), original.Names()) << name;
    for (const std::string& tensor : original.Names()) {
      EXPECT_EQ(written.Require(tensor).shape, original.Require(tensor).shape) << tensor;
      EXPECT_TRUE(std::ranges::equal(written.Raw(tensor), original.Raw(tensor))) << tensor;
    }
  }
}

const Strings kClassifierOfBert = {"pooler.dense.weight", "pooler.dense.bias", "classifier.weight",
                                   "classifier.bias"};

TEST(EncoderFiles, AMaskedLanguageModelBecomesAClassifier) {
  const Start source(kFolder + "bert-masked-lm");
  const Start start(kFolder + "bert-masked-lm", Classification(4));
  EXPECT_EQ(start.fresh, kClassifierOfBert);
  EXPECT_EQ(start.weights.size(), start.model->parameters().size() - 4);
  ExpectTakenFrom(start, source);
}

TEST(EncoderFiles, APretrainedModelGivesItsPooler) {
  const Start source(kFolder + "bert-pretraining");
  const Start classifier(kFolder + "bert-pretraining", Classification(4));
  EXPECT_EQ(classifier.fresh, Strings({"classifier.weight", "classifier.bias"}));
  ExpectTakenFrom(classifier, source);
  const Start masked(kFolder + "bert-pretraining", Given({{"task", std::string("masked_lm")}}));
  EXPECT_EQ(masked.fresh, Strings());
  ExpectTakenFrom(masked, source);
}

TEST(EncoderFiles, AClassifierTakesOtherClassesOrGuessesTokensAgain) {
  const Start source(kFolder + "bert-classification");
  const Start other(kFolder + "bert-classification", Given({{"classes", int64_t{2}}}));
  EXPECT_EQ(other.fresh, Strings({"classifier.weight", "classifier.bias"}));
  ExpectTakenFrom(other, source);
  const Start masked(kFolder + "bert-classification", Given({{"task", std::string("masked_lm")}}));
  EXPECT_EQ(masked.fresh, Strings({"head.transform.weight", "head.transform.bias",
                                   "head.norm.weight", "head.norm.bias", "head.bias"}));
  ExpectTakenFrom(masked, source);
}

// Their names have no prefix.
TEST(EncoderFiles, ModelsWithoutHeadsAreStartedFrom) {
  for (const std::string name : {"bert-base", "vit-base"}) {
    const formats::ModelSafetensors file(kFolder + name);
    const bool text = name == "bert-base";
    const Start start(kFolder + name, text ? Classification(4) : Given({{"classes", int64_t{4}}}));
    EXPECT_EQ(start.fresh, text ? Strings({"classifier.weight", "classifier.bias"})
                                : Strings({"head.weight", "head.bias"}));
    const std::string norm = text ? "embeddings.LayerNorm.weight" : "layernorm.weight";
    std::vector<float> stored(12);
    file.ReadFloat32(norm, stored.data(), 12);
    EXPECT_EQ(start.weights.at(text ? "embed.norm.weight" : "norm.weight"), stored);
  }
}

TEST(EncoderFiles, AnImageModelTakesOtherClasses) {
  const Start source(kFolder + "vit");
  const Start start(kFolder + "vit", Given({{"classes", int64_t{9}}}));
  EXPECT_EQ(start.fresh, Strings({"head.weight", "head.bias"}));
  ExpectTakenFrom(start, source);
}

TEST(EncoderFiles, PositionsAreInterpolatedAsByTransformers) {
  const Start source(kFolder + "vit");
  const JsonObject expected = JsonObject::FromFile(kFolder + "vit/expected.json");
  for (const int64_t size : {20, 8}) {
    const Start start(kFolder + "vit", Given({{"image_size", size}}));
    const std::vector<double> reference =
        expected.RequireObject("images of " + std::to_string(size)).RequireFloats("positions");
    const std::vector<float>& positions = start.weights.at("embed.position.weight");
    ASSERT_EQ(positions.size(), reference.size());
    for (size_t i = 0; i < positions.size(); ++i) EXPECT_NEAR(positions[i], reference[i], 1e-6);
    ExpectTakenFrom(start, source, {"embed.position.weight"});
  }
}

TEST(EncoderFiles, OtherShapesAreRefused) {
  for (const std::string name : {"bert-masked-lm", "vit"}) {
    const TempFolder folder;
    nlohmann::ordered_json config = JsonObject::FromFile(kFolder + name + "/config.json").json();
    config["intermediate_size"] = 24;
    folder.Write("config.json", config.dump());
    std::filesystem::copy(kFolder + name + "/model.safetensors", folder / "model.safetensors");
    ExpectUserError([&] { Start{folder.path()}; },
                    {"model.safetensors", "intermediate.dense.weight", "[20, 12]", "[24, 12]"});
  }
}

}  // namespace
}  // namespace plimsoll::models
