#include "models/family.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "models/huggingface.h"
#include "models/layers.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

// One layer on its own input.
class Plain final : public Model {
 public:
  explicit Plain(Settings settings) : Model("plain", std::move(settings)) {}

 protected:
  Outputs Forward(Layers& g, Head) const override {
    const graph::Value x =
        g.Input("x", graph::DType::kFloat32, {g.batch().batch, settings().Int("width")});
    Outputs outputs;
    outputs.loss = Linear(g, "out", x, 1, {.bias = settings().Bool("bias")});
    return outputs;
  }
};

const FamilyRegistration kPlain({
    .name = "plain",
    .settings =
        {{.name = "width", .doc = "Width.", .required = "give it", .min = 1, .max = 1e7},
         {.name = "bias", .type = Setting::Type::kBool, .doc = "Bias.", .default_value = true}},
    .make = [](const Settings& settings) { return std::make_unique<Plain>(settings); },
});

Settings OfWidth(int64_t width) {
  Settings settings;
  settings.Set("width", width);
  Complete(*FindFamily("plain"), settings);
  return settings;
}

TEST(Families, AreFoundByName) {
  EXPECT_EQ(FamilyNames(), (std::vector<std::string>{"bert", "dcgan", "gemma2", "gemma3_text",
                                                     "gpt2", "llama", "mistral", "phi3", "plain",
                                                     "qwen2", "qwen3", "resnet", "unet", "vit"}));
  EXPECT_EQ(FindFamily("t5"), nullptr);
}

TEST(Families, MakeModelsOfTheirSettings) {
  const auto model = MakeModel(*FindFamily("plain"), OfWidth(5));
  EXPECT_EQ(model->family(), "plain");
  EXPECT_EQ(model->parameter_count(), 6);
  const std::map<std::string, std::string> described = {
      {"model.family", "plain"}, {"model.width", "5"}, {"model.bias", "true"}};
  EXPECT_EQ(model->description(), described);
  EXPECT_FALSE(model->text_sizes().has_value());
}

// The family needs no code of its own for this.
TEST(Families, HaveFoldersByTheirSettings) {
  const auto model = MakeModel(*FindFamily("plain"), OfWidth(5));
  const TempFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5};
  SaveWeights(folder.path(), *model, [&](const ParameterInfo&) { return values.data(); });
  const auto read = ModelFromHuggingFace(folder.path());
  EXPECT_EQ(read->description(), model->description());
  EXPECT_EQ(read->parameters(), model->parameters());
  const WeightReader reader(folder.path(), *read);
  std::vector<float> back(5);
  reader.Read(read->parameters()[0], back.data());
  EXPECT_EQ(back, values);
}

// A setting that the weights fix may be given next to them only with the same value.
TEST(Families, RefuseOtherSettingsThanTheFoldersByName) {
  const auto model = MakeModel(*FindFamily("plain"), OfWidth(5));
  const TempFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5};
  SaveWeights(folder.path(), *model, [&](const ParameterInfo&) { return values.data(); });
  Settings same, other;
  same.Set("width", int64_t{5}, "run.yaml:1");
  other.Set("width", int64_t{6}, "run.yaml:1");
  EXPECT_EQ(ModelFromHuggingFace(folder.path(), same)->parameters(), model->parameters());
  SettingErrorOf("width", [&] { ModelFromHuggingFace(folder.path(), other); });
}

TEST(Families, MeanTheSameByTheSameName) {
  const auto with = [](Setting width) {
    return [width] { FamilyRegistration({.name = "other", .settings = {width}, .make = {}}); };
  };
  ExpectInternalError(with({.name = "width", .doc = "W.", .min = 2, .max = 1e7}),
                      {"other", "'width'"});
  ExpectInternalError(with({.name = "width", .type = Setting::Type::kString, .doc = "W."}),
                      {"'width'"});
  ExpectInternalError([] { FamilyRegistration({.name = "llama", .settings = {}, .make = {}}); },
                      {"'llama'"});
  EXPECT_EQ(FindFamily("other"), nullptr);
}

}  // namespace
}  // namespace plimsoll::models
