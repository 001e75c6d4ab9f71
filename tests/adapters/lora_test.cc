#include "adapters/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "adapters/modules_to_save.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"

namespace plimsoll::adapters {
namespace {

using graph::Shape;
using testing::ElementsAre;

std::unique_ptr<models::Model> Gpt2() {
  return models::MakeModel(models::Gpt2Spec(2, 8, 2, 20, 4));
}

// Two heads of queries, one of keys and values, each 6 wide.
std::unique_ptr<models::Model> Llama() {
  return models::MakeModel(models::LlamaSpec({2, 8, 2, 1, 6, 10, 20, 4, false}));
}

std::vector<std::string> Names(const std::vector<Layer>& layers) {
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    for (const Module& module : layer.modules) names.push_back(module.name);
  }
  return names;
}

TEST(SelectLayers, TakesEndsOfHuggingFacesNames) {
  const auto model = Llama();
  const std::vector<Layer> layers = SelectLayers(*model, {"v_proj", "q_proj", "mlp.down_proj"});
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[0].name, "block.0.attn.qkv");
  EXPECT_EQ(layers[0].weight, (Shape{24, 8}));
  EXPECT_THAT(layers[0].modules, ElementsAre(Module{"model.layers.0.self_attn.q_proj", 0, 12},
                                             Module{"model.layers.0.self_attn.v_proj", 18, 6}));
  EXPECT_EQ(layers[1].name, "block.0.mlp.down");
  EXPECT_EQ(layers[3].modules.front().name, "model.layers.1.mlp.down_proj");
}

// As in PEFT, c_proj names layers of attention as well as of the feed-forward network.
TEST(SelectLayers, ANameMayMeanSeveralModules) {
  const auto model = Gpt2();
  EXPECT_THAT(Names(SelectLayers(*model, {"c_proj"})),
              ElementsAre("transformer.h.0.attn.c_proj", "transformer.h.0.mlp.c_proj",
                          "transformer.h.1.attn.c_proj", "transformer.h.1.mlp.c_proj"));
  EXPECT_THAT(Names(SelectLayers(*model, {"attn.c_proj"})),
              ElementsAre("transformer.h.0.attn.c_proj", "transformer.h.1.attn.c_proj"));
  EXPECT_THAT(Names(SelectLayers(*model, {"h.1.*"})),
              ElementsAre("transformer.h.1.attn.c_attn", "transformer.h.1.attn.c_proj",
                          "transformer.h.1.mlp.c_fc", "transformer.h.1.mlp.c_proj"));
}

TEST(SelectLayers, AllLinearIsAllButTheHead) {
  EXPECT_EQ(Names(SelectLayers(*Llama(), {"all-linear"})).size(), 14u);
  EXPECT_EQ(Names(SelectLayers(*Gpt2(), {"all-linear"})).size(), 8u);
}

TEST(SelectLayers, NamesWhatThereIsWhereNothingMatches) {
  ExpectUserError(
      [] {
        SelectLayers(*Llama(), {"q_proj", "c_attn"});
      },
      {"no linear layer matches 'c_attn'",
       "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj, or all-linear",
       "model.layers.0.self_attn.q_proj"});
  ExpectUserError([] { SelectLayers(*Llama(), {"lm_head"}); }, {"no linear layer matches"});
  ExpectUserError([] { SelectLayers(*Llama(), {"proj"}); }, {"no linear layer matches 'proj'"});
}

// What is trained in full needs no adapter.
TEST(SelectLayers, LeavesOutWeightsThatAreTrainedInFull) {
  const auto model = Gpt2();
  const auto saved = SelectSaved(*model, {"h.1.mlp.c_fc"});
  EXPECT_THAT(Names(SelectLayers(*model, {"c_fc"}, saved)),
              ElementsAre("transformer.h.0.mlp.c_fc"));
  ExpectUserError([&] { SelectLayers(*model, {"h.1.mlp.c_fc"}, saved); },
                  {"modules_to_save trains in full"});
}

TEST(SelectLayers, ALongNameMakesNoLongMessage) {
  const std::string message = UserErrorOf([] { SelectLayers(*Llama(), {std::string(9000, 'x')}); });
  EXPECT_LT(message.size(), 500u);
  EXPECT_NE(message.find("there are down_proj"), std::string::npos) << message;
}

TEST(TargetsOf, IsTheShortestListThatSelectsTheSame) {
  const auto targets = [](const models::Model& model, std::vector<std::string> of) {
    return TargetsOf(model, SelectLayers(model, of));
  };
  EXPECT_THAT(targets(*Llama(), {"*attn.q_proj", "v_proj"}), ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(targets(*Gpt2(), {"attn.c_proj", "c_fc"}), ElementsAre("attn.c_proj", "mlp.c_fc"));
  EXPECT_THAT(targets(*Gpt2(), {"all-linear"}), ElementsAre("c_attn", "c_fc", "c_proj"));
  EXPECT_THAT(targets(*Gpt2(), {"h.1.mlp.c_fc"}), ElementsAre("transformer.h.1.mlp.c_fc"));
}

Lora Of(const models::Model& model, const std::vector<std::string>& targets) {
  Lora lora;
  lora.rank = 3;
  lora.alpha = 6;
  lora.layers = SelectLayers(model, targets);
  return lora;
}

TEST(Parameters, AreStackedAsTheWeightsModulesAre) {
  const auto model = Llama();
  const std::vector<models::ParameterInfo> parameters =
      Parameters(Of(*model, {"layers.0.*.q_proj", "layers.0.*.v_proj"}));
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "block.0.attn.qkv.lora_a");
  EXPECT_EQ(parameters[0].shape, (Shape{6, 8}));
  EXPECT_EQ(parameters[0].init.kind, models::Initializer::kUniform);
  EXPECT_NEAR(parameters[0].init.bound, 0.3535534, 1e-6);  // 1/√8
  EXPECT_EQ(parameters[1].name, "block.0.attn.qkv.lora_b");
  EXPECT_EQ(parameters[1].shape, (Shape{18, 3}));
  EXPECT_EQ(parameters[1].init, models::Initializer{});
  // No adapter has the name of a parameter of the model.
  const std::vector<std::string> frozen = FrozenParameters(*model, {});
  EXPECT_EQ(frozen.size(), model->parameters().size());
  for (const auto& parameter : parameters) {
    EXPECT_THAT(frozen, testing::Not(testing::Contains(parameter.name)));
  }
}

TEST(Lora, ScalesByTheRankOrItsRoot) {
  Lora lora;
  lora.rank = 16;
  lora.alpha = 8;
  EXPECT_EQ(lora.scale(), 0.5);
  lora.rslora = true;
  EXPECT_EQ(lora.scale(), 2);
}

// If a layer's rows are split, so are B's rows; if its columns are, so are A's.
TEST(SplitParameters, SharesAdaptersAsTheirWeights) {
  const auto model = models::MakeModel(models::LlamaSpec({1, 8, 4, 2, 2, 12, 20, 4, false}));
  const Lora lora = Of(*model, {"k_proj", "q_proj", "o_proj", "up_proj", "down_proj"});
  const auto split = SplitParameters(*model, lora, 2);
  const auto local = [&](const std::string& name) { return split.at(name).LocalShape(); };
  EXPECT_FALSE(split.contains("block.0.attn.qkv.lora_a"));
  EXPECT_EQ(local("block.0.attn.qkv.lora_b"), (Shape{6, 3}));
  EXPECT_EQ(local("block.0.attn.proj.lora_a"), (Shape{3, 4}));
  EXPECT_FALSE(split.contains("block.0.attn.proj.lora_b"));
  EXPECT_EQ(local("block.0.mlp.gate_up.lora_b"), (Shape{6, 3}));
  EXPECT_EQ(local("block.0.mlp.down.lora_a"), (Shape{3, 6}));
  EXPECT_TRUE(split.contains("block.0.attn.qkv.weight"));
  // Rank 1 has the second halves of q, 8 rows, and of k, 4 rows.
  std::vector<int64_t> rows;
  split.at("block.0.attn.qkv.lora_b").ForPieces(1, [&](int64_t from, int64_t, int64_t count) {
    for (int64_t i = 0; i < count; i += 3) rows.push_back((from + i) / 3);
  });
  EXPECT_THAT(rows, ElementsAre(4, 5, 6, 7, 10, 11));
  EXPECT_TRUE(SplitParameters(*model, lora, 1).empty());
}

TEST(Merge, AddsEachModulesProductToItsRows) {
  Lora lora;
  lora.rank = 1;
  lora.alpha = 2;
  const Layer layer{"qkv", {3, 2}, {{"q", 0, 1}, {"v", 2, 1}}, {}};
  std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  Merge(lora, layer, std::vector<float>{1, 10, 2, 20}, std::vector<float>{0.5f, 0.25f}, weight);
  EXPECT_THAT(weight, ElementsAre(2, 12, 3, 4, 6, 16));
}

}  // namespace
}  // namespace plimsoll::adapters
