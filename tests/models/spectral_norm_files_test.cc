// A weight with a spectral norm in files, as PyTorch names and orders it and its vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "formats/model_safetensors.h"
#include "models/huggingface.h"
#include "models/layers.h"
#include "models/model.h"
#include "ops/convolution/conv.h"
#include "tests/models/loaded_weights.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

constexpr int64_t kOutputs = 5, kHeight = 2, kWidth = 3, kInputs = 4;

class Normalized final : public Model {
 public:
  Normalized() : Model("normalized") {}

  CheckpointTable checkpoint_table() const override {
    return {.prefix = "",
            .entries = {{.parameter = "conv.weight",
                         .tensors = {{"conv.parametrizations.weight.original"}},
                         .order = {0, 3, 1, 2}},
                        {.parameter = "conv.norm.u",
                         .tensors = {{"conv.parametrizations.weight.0._u"}}},
                        {.parameter = "conv.norm.v",
                         .tensors = {{"conv.parametrizations.weight.0._v"}},
                         .order = {2, 0, 1},
                         .flat = true}},
            .ignored = {}};
  }

 protected:
  Outputs Forward(Layers& g, Head) const override {
    const graph::Scope scope(g.builder(), "conv");
    const graph::Value x = g.Input("images", graph::DType::kFloat32, {1, 4, 4, kInputs});
    const graph::Value weight =
        g.Parameter("weight", {kOutputs, kHeight, kWidth, kInputs}, {Initializer::kNormal, 1});
    return {.logits = ops::Conv(g.builder(), x, SpectralNorm(g, "norm", weight))};
  }
};

TEST(SpectralNormFiles, HaveFlatVectorsInTheOrderOfTheirWeight) {
  const auto model = WithParameters<Model>(std::make_unique<Normalized>());
  LoadedWeights weights;
  for (const ParameterInfo& parameter : model->Stored()) {
    std::vector<float>& values = weights[parameter.name];
    for (int64_t i = 0; i < parameter.shape.elements(); ++i) {
      values.push_back(static_cast<float>(i));
    }
  }
  const TempFolder folder;
  SaveWeights(folder.path(), *model,
              [&](const ParameterInfo& parameter) { return weights.at(parameter.name).data(); });

  const formats::ModelSafetensors file(folder.path());
  const auto shape = [&](const char* name) { return file.Require(name).shape; };
  EXPECT_EQ(shape("conv.parametrizations.weight.original"),
            (std::vector<int64_t>{kOutputs, kInputs, kHeight, kWidth}));
  EXPECT_EQ(shape("conv.parametrizations.weight.0._u"), std::vector<int64_t>{kOutputs});
  constexpr int64_t kRow = kInputs * kHeight * kWidth;
  ASSERT_EQ(shape("conv.parametrizations.weight.0._v"), std::vector<int64_t>{kRow});
  float v[kRow];
  file.ReadFloat32("conv.parametrizations.weight.0._v", v, kRow);
  for (int64_t i = 0; i < kRow; ++i) {
    const int64_t input = i / (kHeight * kWidth), pixel = i % (kHeight * kWidth);
    EXPECT_EQ(v[i], static_cast<float>(pixel * kInputs + input)) << i;
  }
  // So is each row of the weight, and the first has the same numbers.
  std::vector<float> weight(kOutputs * kRow);
  file.ReadFloat32("conv.parametrizations.weight.original", weight.data(), kOutputs * kRow);
  EXPECT_TRUE(std::equal(v, v + kRow, weight.begin()));

  EXPECT_EQ(ReadWeights(folder.path(), *model), weights);
  EXPECT_EQ(LoadPieces(folder.path(), *model, {}), weights);
}

}  // namespace
}  // namespace plimsoll::models
