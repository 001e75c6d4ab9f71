#include "models/model.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ops/attention/attention.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"

namespace plimsoll::models {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Program;
using graph::Role;
using graph::Shape;
using graph::TensorId;

struct Built {
  Program program;
  Model::Outputs outputs;
};

Built BuildModel(const ModelSpec& spec, Head head, bool training, Batch batch = {2, 8}) {
  Built built;
  graph::Builder builder(built.program);
  built.outputs = MakeModel(spec)->Build(builder, batch, head, training);
  return built;
}

std::map<std::string, graph::TensorType> InputsOf(const Program& program) {
  std::map<std::string, graph::TensorType> inputs;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.role == Role::kInput) inputs[tensor.name] = tensor.type;
  }
  return inputs;
}

std::string MessageOf(const ModelSpec& spec) {
  return UserErrorOf([&] { MakeModel(spec); });
}

TEST(Model, CountsThePublishedParameters) {
  for (const Published& model : PublishedModels()) {
    EXPECT_EQ(MakeModel(model.spec)->parameter_count(), model.parameters) << model.name;
  }
}

TEST(Model, DeclaresExactlyItsParametersAndUsesEach) {
  for (const ModelSpec& spec : TinyModels()) {
    const auto model = MakeModel(spec);
    for (const Head head : {Head::kLoss, Head::kLogits}) {
      const Built built = BuildModel(spec, head, true);
      std::set<TensorId> read;
      for (const graph::Node& node : built.program.nodes()) {
        read.insert(node.inputs.begin(), node.inputs.end());
      }
      size_t found = 0;
      for (size_t id = 0; id < built.program.tensors().size(); ++id) {
        const graph::Tensor& tensor = built.program.tensors()[id];
        if (tensor.role == Role::kParameter || tensor.role == Role::kInput) {
          EXPECT_TRUE(tensor.persistent) << tensor.name;
          EXPECT_TRUE(read.contains(static_cast<TensorId>(id))) << tensor.name << " is unused";
        }
        found += tensor.role == Role::kParameter;
      }
      EXPECT_EQ(found, model->parameters().size());
      std::set<std::string> names;
      for (const ParameterInfo& parameter : model->parameters()) {
        EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name << " twice";
        const graph::Tensor& tensor = built.program.tensor(built.program.Require(parameter.name));
        EXPECT_EQ(tensor.type.shape, parameter.shape) << parameter.name;
        EXPECT_EQ(tensor.type.dtype, DType::kFloat32) << parameter.name;
      }
    }
  }
}

TEST(Model, SharesParametersIfTheHeadIsTied) {
  for (const ModelSpec& spec : TinyModels()) {
    EXPECT_EQ(MakeModel(spec)->shares_parameters(), spec.tied) << spec.family;
  }
}

TEST(Model, NamesLlamaParametersByTheirPlace) {
  std::vector<std::string> names;
  const auto model = MakeModel(LlamaSpec({1, 12, 4, 2, 6, 10, 17, 9, false}));
  for (const ParameterInfo& p : model->parameters()) {
    names.push_back(p.name + p.shape.ToString());
  }
  EXPECT_THAT(names,
              testing::ElementsAre(
                  "embed.token.weight[17,12]", "block.0.norm_1.weight[12]",
                  "block.0.attn.qkv.weight[48,12]", "block.0.attn.proj.weight[12,24]",
                  "block.0.norm_2.weight[12]", "block.0.mlp.gate_up.weight[20,12]",
                  "block.0.mlp.down.weight[12,10]", "norm.weight[12]", "head.weight[17,12]"));
}

TEST(Model, LossReadsTokensTargetsAndTheirWeight) {
  for (const ModelSpec& spec : TinyModels()) {
    const Built built = BuildModel(spec, Head::kLoss, false);
    EXPECT_EQ(built.program.tensor(built.outputs.loss).type.shape, Shape{});
    EXPECT_EQ(built.outputs.logits, kNoTensor);
    EXPECT_THAT(InputsOf(built.program),
                testing::UnorderedElementsAre(
                    testing::Pair("tokens", graph::TensorType{DType::kInt32, {2, 8}}),
                    testing::Pair("targets", graph::TensorType{DType::kInt32, {2, 8}}),
                    testing::Pair("token_weight", graph::TensorType{DType::kFloat32, {}})));
  }
}

// Every op that has to do with positions reads those of documents, and no other input is new.
TEST(Model, KeepsDocumentsApartWhereItHasALoss) {
  for (ModelSpec spec : TinyModels()) {
    spec.documents_apart = true;
    const Built built = BuildModel(spec, Head::kLoss, true);
    auto inputs = InputsOf(built.program);
    EXPECT_EQ(inputs["positions"], (graph::TensorType{DType::kInt32, {2, 8}}));
    const TensorId positions = built.program.Require("positions");
    std::map<std::string, int64_t> readers;
    for (const graph::Node& node : built.program.nodes()) {
      readers[node.op->name] += std::ranges::count(node.inputs, positions);
    }
    EXPECT_EQ(readers["attention"], spec.layers) << spec.family;
    EXPECT_EQ(readers["rotary"], spec.family == "gpt2" ? 0 : spec.layers) << spec.family;
    EXPECT_EQ(readers["embedding"], spec.family == "gpt2" ? 1 : 0) << spec.family;
    const Built logits = BuildModel(spec, Head::kLogits, false);
    EXPECT_FALSE(InputsOf(logits.program).contains("positions"));
  }
}

TEST(Model, LogitsAreOfOnePositionPerRow) {
  for (const ModelSpec& spec : TinyModels()) {
    const Built built = BuildModel(spec, Head::kLogits, false);
    EXPECT_EQ(built.program.tensor(built.outputs.logits).type.shape, (Shape{2, spec.vocab}));
    EXPECT_EQ(built.outputs.loss, kNoTensor);
    EXPECT_THAT(InputsOf(built.program),
                testing::UnorderedElementsAre(
                    testing::Pair("tokens", graph::TensorType{DType::kInt32, {2, 8}}),
                    testing::Pair("last", graph::TensorType{DType::kInt32, {2}})));
  }
}

TEST(Model, DropsOnlyInTrainingAndEachPlaceByItsOwnKey) {
  for (ModelSpec spec : TinyModels()) {
    spec.dropout = 0.1;
    EXPECT_FALSE(InputsOf(BuildModel(spec, Head::kLoss, false).program).contains("rng"));
    const Built built = BuildModel(spec, Head::kLoss, true);
    EXPECT_EQ(InputsOf(built.program).at("rng"), (graph::TensorType{DType::kInt32, {2}}));
    std::set<int64_t> keys;
    size_t random = 0;
    for (const graph::Node& node : built.program.nodes()) {
      if (!node.op->random) continue;
      keys.insert(node.attributes.GetInt("key"));
      ++random;
    }
    // gpt2: the embedding, and in each layer attention and two branches.
    EXPECT_EQ(random,
              static_cast<size_t>(spec.family == "gpt2" ? 1 + 3 * spec.layers : spec.layers));
    EXPECT_EQ(keys.size(), random);
  }
}

TEST(Model, StartsResidualBranchesSmallerInGpt2) {
  const auto model = MakeModel(Gpt2Spec(8, 12, 3, 17, 9));
  std::map<std::string, Initializer> init;
  for (const ParameterInfo& p : model->parameters()) init[p.name] = p.init;
  EXPECT_EQ(init.at("block.7.attn.qkv.weight"), (Initializer{Initializer::kNormal, 0.02}));
  EXPECT_EQ(init.at("block.7.attn.proj.weight"), (Initializer{Initializer::kNormal, 0.005}));
  EXPECT_EQ(init.at("block.7.mlp.proj.weight"), (Initializer{Initializer::kNormal, 0.005}));
  EXPECT_EQ(init.at("block.7.mlp.proj.bias"), Initializer{Initializer::kZeros});
  EXPECT_EQ(init.at("norm.weight"), Initializer{Initializer::kOnes});
}

// How many keys a query of a sequence of T sees on average: i of them at position i, and at most
// the window's.
double KeysPerQuery(const ModelSpec& spec, size_t layer, int64_t sequence) {
  const bool windowed = spec.window && (spec.windowed.empty() || spec.windowed[layer]);
  double keys = 0;
  for (int64_t i = 1; i <= sequence; ++i) {
    keys += static_cast<double>(windowed ? std::min(i, *spec.window) : i);
  }
  return keys / static_cast<double>(sequence);
}

// For one token within a sequence of T: two for each weight of a matrix product, and those of
// attention.
double FlopsPerToken(const ModelSpec& spec, int64_t sequence) {
  double weights = static_cast<double>(spec.vocab) * spec.width;  // the head
  const auto model = MakeModel(spec);
  for (const ParameterInfo& parameter : model->parameters()) {
    if (parameter.shape.rank() == 2 && parameter.name.starts_with("block.")) {
      weights += static_cast<double>(parameter.shape.elements());
    }
  }
  double flops = 2 * weights;
  for (size_t layer = 0; layer < static_cast<size_t>(spec.layers); ++layer) {
    flops += 4.0 * spec.heads * spec.head_width * KeysPerQuery(spec, layer, sequence);
  }
  return flops;
}

TEST(Model, ProductsAreThoseOfItsMathematics) {
  const auto expect = [](const ModelSpec& spec, Batch batch) {
    const Built built = BuildModel(spec, Head::kLoss, true, batch);
    double products = 0, flops = 0;
    for (const graph::Node& node : built.program.nodes()) {
      const graph::Cost cost = graph::CostOf(built.program.CallOf(node).get());
      products += cost.products;
      flops += cost.flops;
    }
    const double tokens = static_cast<double>(batch.batch * batch.sequence);
    const double expected = FlopsPerToken(spec, batch.sequence) * tokens;
    EXPECT_NEAR(products / expected, 1.0, 1e-12);
    EXPECT_GT(flops, products);
    return flops / products;
  };
  for (const ModelSpec& spec : TinyModels()) expect(spec, {2, 8});
  for (const Published& model : PublishedModels()) {
    EXPECT_LT(expect(model.spec, {1, 1024}), 1.01)
        << model.name;  // the other operations count little
  }
}

TEST(Model, ShardingSplitsParametersWhole) {
  for (const ModelSpec& spec : TinyModels()) {
    const auto model = MakeModel(spec);
    for (const Sharding& row : model->sharding()) {
      int matches = 0;
      for (const ParameterInfo& parameter : model->parameters()) {
        if (fnmatch(row.pattern.c_str(), parameter.name.c_str(), 0) != 0) continue;
        ++matches;
        EXPECT_GE(parameter.shape.rank(), row.split == Sharding::kColumns ? 2 : 1);
        int64_t sum = 0;
        for (int64_t block : row.blocks) sum += block;
        if (row.blocks.empty()) continue;
        EXPECT_EQ(sum, parameter.shape.dim(0)) << parameter.name;
      }
      const bool optional = row.pattern == "head.weight"             ? spec.tied
                            : row.pattern == "block.*.attn.qkv.bias" ? !spec.attention_bias
                                                                     : false;
      EXPECT_EQ(matches == 0, optional) << row.pattern;
    }
    // Every matrix of a block is split.
    for (const ParameterInfo& parameter : model->parameters()) {
      if (parameter.shape.rank() != 2 || !parameter.name.starts_with("block.")) continue;
      const auto rows = model->sharding();
      EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const Sharding& row) {
        return fnmatch(row.pattern.c_str(), parameter.name.c_str(), 0) == 0;
      })) << parameter.name;
    }
  }
}

TEST(Model, RefusesASequenceBeyondItsPositions) {
  for (const ModelSpec& spec : TinyModels()) {
    Program program;
    graph::Builder builder(program);
    const auto model = MakeModel(spec);
    EXPECT_EQ(UserErrorOf([&] {
                model->Build(builder, {2, 10}, Head::kLoss, false);
              }),
              "model.sequence: 10 tokens, but the model has 9 positions: shorten it or raise "
              "model.max_sequence");
  }
}

// A window as long as the sequence leaves out no key.
TEST(Model, AttentionHasTheWindowWhereItIsShorter) {
  ModelSpec spec = MistralSpec({2, 12, 4, 1, 4, 10, 17, 9, false});
  spec.window = 7;
  const auto model = MakeModel(spec);
  const auto window = [&](int64_t sequence, Head head) {
    graph::Program program;
    graph::Builder builder(program);
    model->Build(builder, {2, sequence}, head, false);
    std::set<int64_t> windows;
    for (const graph::Node& node : program.nodes()) {
      if (node.op->name == "attention") windows.insert(ops::AttentionWindow(node.attributes));
    }
    EXPECT_EQ(windows.size(), 1u);
    return *windows.begin();
  };
  EXPECT_EQ(window(7, Head::kLoss), 0);
  EXPECT_EQ(window(8, Head::kLoss), 7);
  EXPECT_EQ(window(1, Head::kLogits), 7);  // of a text of up to 9 tokens
}

// The longest text decides, that is, a row of the batch or what the caches have room for.
TEST(Model, LongropeTakesItsFactorsByTheLongestText) {
  ModelSpec spec = Phi3Spec({2, 24, 4, 2, 6, 10, 17, 9, true});
  spec.rope_scaling = RopeScaling{.type = RopeScaling::Type::kLongrope,
                                  .original_sequence = 6,
                                  .attention_factor = 1.25,
                                  .short_factor = {1, 1.5, 2},
                                  .long_factor = {2, 4, 8}};
  const auto stretch = [&](Batch batch, Head head) {
    std::set<std::string> found;
    const Built built = BuildModel(spec, head, false, batch);
    for (const graph::Node& node : built.program.nodes()) {
      if (node.op->name != "rotary") continue;
      EXPECT_EQ(node.attributes.GetReal("attention_factor"), 1.25);
      found.insert(node.attributes.GetWord("stretch"));
    }
    EXPECT_EQ(found.size(), 1u);
    return *found.begin();
  };
  EXPECT_EQ(stretch({2, 6}, Head::kLoss), "1 1.5 2");
  EXPECT_EQ(stretch({2, 7}, Head::kLoss), "2 4 8");
  EXPECT_EQ(stretch({2, 1, 6}, Head::kLogits), "1 1.5 2");
  EXPECT_EQ(stretch({2, 1, 7}, Head::kLogits), "2 4 8");
}

TEST(Model, PartsOfHeadsTurnInPhi3) {
  ModelSpec spec = Phi3Spec({1, 24, 4, 2, 6, 10, 17, 9, true});
  const auto width = [&] {
    const Built built = BuildModel(spec, Head::kLoss, false);
    for (const graph::Node& node : built.program.nodes()) {
      if (node.op->name != "rotary") continue;
      return node.attributes.Has("rotary_width") ? node.attributes.GetInt("rotary_width") : 0;
    }
    return int64_t{-1};
  };
  EXPECT_EQ(width(), 0);
  spec.rotary_width = 4;
  EXPECT_EQ(width(), 4);
}

// Snapshots compare descriptions; those of older forms are as they were.
TEST(Model, DescriptionsTellRotaryFormsApart) {
  ModelSpec spec = LlamaSpec({1, 24, 4, 2, 6, 10, 17, 9, true});
  const auto rope = [&] { return MakeModel(spec)->description().at("model.rope_type"); };
  EXPECT_EQ(rope(), "default");
  EXPECT_FALSE(MakeModel(spec)->description().contains("model.rotary_width"));
  spec.rope_scaling = RopeScaling::Linear(2);
  EXPECT_EQ(rope(), "linear 2");
  spec.rope_scaling = RopeScaling{};
  EXPECT_EQ(rope(), "llama3 8 1 4 8192");
  spec.rope_scaling = RopeScaling::Yarn(1, 20);
  EXPECT_EQ(rope(), "yarn 1 1 32 1 20");
  spec.rope_scaling->truncate = false;
  EXPECT_EQ(rope(), "yarn 1 1 32 1 20 untruncated");
  spec.family = "phi3";
  spec.rotary_width = 4;
  spec.rope_scaling = LongropeOf(spec, 8);
  EXPECT_EQ(rope(), "longrope 1.19 8 short 1 1.25 long 1.5 4");
  EXPECT_EQ(MakeModel(spec)->description().at("model.rotary_width"), "4");
}

// What the ops of a program of 8 tokens say, by layer.
std::vector<std::string> AttentionsOf(const ModelSpec& spec) {
  const Built built = BuildModel(spec, Head::kLoss, false);
  std::vector<std::string> found;
  double theta = 0;
  for (const graph::Node& node : built.program.nodes()) {
    if (node.op->name == "rotary") theta = node.attributes.GetReal("theta");
    if (node.op->name != "attention") continue;
    const int64_t head = spec.head_width;
    found.push_back(fmt::format(
        "window {}, theta {}, scale {:.3f}, cap {}", ops::AttentionWindow(node.attributes), theta,
        ops::AttentionScale(node.attributes, head), ops::AttentionSoftcap(node.attributes)));
  }
  return found;
}

TEST(Model, LayersOfGemmaDifferInTheirAttention) {
  ModelSpec gemma2 = Gemma2Spec({3, 12, 4, 2, 4, 10, 17, 9, true});
  EXPECT_THAT(AttentionsOf(gemma2), testing::Each("window 0, theta 10000, scale 0.500, cap 50"));
  gemma2.window = 7;
  gemma2.query_pre_attn_scalar = 16;
  EXPECT_THAT(AttentionsOf(gemma2),
              testing::ElementsAre("window 7, theta 10000, scale 0.250, cap 50",
                                   "window 0, theta 10000, scale 0.250, cap 50",
                                   "window 7, theta 10000, scale 0.250, cap 50"));
  ModelSpec gemma3 = Gemma3Spec({3, 12, 4, 2, 4, 10, 17, 9, true}, 5);
  gemma3.windowed = {true, false, true};
  EXPECT_THAT(AttentionsOf(gemma3),
              testing::ElementsAre("window 5, theta 10000, scale 0.500, cap 0",
                                   "window 0, theta 1000000, scale 0.500, cap 0",
                                   "window 5, theta 10000, scale 0.500, cap 0"));
  // Without windows in this length, each layer still has the rotary embedding of its type.
  gemma3.window = 8;
  EXPECT_THAT(AttentionsOf(gemma3),
              testing::ElementsAre("window 0, theta 10000, scale 0.500, cap 0",
                                   "window 0, theta 1000000, scale 0.500, cap 0",
                                   "window 0, theta 10000, scale 0.500, cap 0"));
}

TEST(Model, NormsOfGemmaStartAtZero) {
  for (const ModelSpec& spec : {Gemma2Spec({1, 12, 4, 2, 4, 10, 17, 9, true}),
                                Gemma3Spec({1, 12, 4, 2, 4, 10, 17, 9, true}, 5)}) {
    int norms = 0;
    const auto model = MakeModel(spec);
    for (const ParameterInfo& p : model->parameters()) {
      if (p.name.find("norm") == std::string::npos) continue;
      EXPECT_EQ(p.init, Initializer{Initializer::kZeros}) << p.name;
      ++norms;
    }
    EXPECT_EQ(norms, spec.family == "gemma2" ? 5 : 7);
  }
}

// Snapshots of other families are compared by these texts, which have to stay as they were.
TEST(Model, DescribesWhatGemmaAloneHas) {
  const auto of = [](const ModelSpec& spec) {
    std::map<std::string, std::string> own;
    for (const auto& [key, value] : MakeModel(spec)->description()) {
      for (const char* name : {"windowed", "rope_local", "query_pre", "softcapping"}) {
        if (key.find(name) != std::string::npos) own[key] = value;
      }
    }
    return own;
  };
  EXPECT_TRUE(of(MistralSpec({2, 12, 4, 1, 4, 10, 17, 9, false})).empty());
  EXPECT_EQ(of(Gemma2Spec({3, 12, 4, 2, 4, 10, 17, 9, true})),
            (std::map<std::string, std::string>{{"model.windowed", "sfs"},
                                                {"model.query_pre_attn_scalar", "4"},
                                                {"model.attn_logit_softcapping", "50"},
                                                {"model.final_logit_softcapping", "30"}}));
  EXPECT_EQ(of(Gemma3Spec({7, 12, 4, 2, 4, 10, 17, 9, true}, 5)),
            (std::map<std::string, std::string>{{"model.windowed", "sssssfs"},
                                                {"model.query_pre_attn_scalar", "4"},
                                                {"model.rope_local_base_freq", "10000"}}));
}

TEST(Model, NormsHeadsOfQwen3Alone) {
  const auto norms = [](const ModelSpec& spec) {
    std::map<std::string, Shape> found;
    const auto model = MakeModel(spec);
    for (const ParameterInfo& p : model->parameters()) {
      if (p.name.find("q_norm") == std::string::npos && p.name.find("k_norm") == std::string::npos)
        continue;
      EXPECT_EQ(p.init, Initializer{Initializer::kOnes});
      found[p.name] = p.shape;
    }
    return found;
  };
  EXPECT_EQ(norms(Qwen3Spec({1, 12, 4, 2, 6, 10, 17, 9, true})),
            (std::map<std::string, Shape>{{"block.0.attn.q_norm.weight", {6}},
                                          {"block.0.attn.k_norm.weight", {6}}}));
  EXPECT_TRUE(norms(MistralSpec({1, 12, 4, 2, 6, 10, 17, 9, true})).empty());
}

TEST(Model, RefusesImpossibleGemmas) {
  const ModelSpec gemma2 = Gemma2Spec({2, 12, 4, 2, 6, 10, 17, 9, true});
  const ModelSpec gemma3 = Gemma3Spec({2, 12, 4, 2, 6, 10, 17, 9, true}, 5);
  const auto with = [](ModelSpec spec, auto change) {
    change(spec);
    return MessageOf(spec);
  };
  using S = ModelSpec;
  EXPECT_EQ(with(gemma2, [](S& s) { s.heads = 8; }),
            "model.heads: 8 heads do not divide the width 12, and transformers has no such "
            "gemma2; use 6");
  EXPECT_EQ(with(gemma2, [](S& s) { s.window.reset(); }),
            "model.window: is missing; give the number of keys");
  EXPECT_EQ(with(gemma2, [](S& s) { s.windowed.pop_back(); }),
            "model.window_pattern: says of 1 layer whether they have a window, but the model has "
            "2");
  EXPECT_EQ(with(gemma2, [](S& s) { s.query_pre_attn_scalar = 0; }),
            "model.query_pre_attn_scalar: must be at least 1, not 0");
  EXPECT_EQ(with(gemma2, [](S& s) { s.attn_logit_softcapping = -1; }),
            "model.attn_logit_softcapping: must be from 0 to 10000000, not -1");
  EXPECT_EQ(with(gemma3, [](S& s) { s.final_logit_softcapping = 1e8; }),
            "model.final_logit_softcapping: must be from 0 to 10000000, not 100000000");
  EXPECT_EQ(with(gemma3, [](S& s) { s.rope_local_base_freq = 0.5; }),
            "model.rope_local_base_freq: must be above 1");
  EXPECT_EQ(with(gemma3, [](S& s) { s.head_width = 5; }),
            "model.head_width: 5 is odd, and the rotary embedding turns pairs");
}

TEST(Model, RefusesImpossibleSpecs) {
  const ModelSpec gpt2 = Gpt2Spec(2, 12, 3, 17, 9);
  const ModelSpec llama = LlamaSpec({2, 12, 4, 2, 6, 10, 17, 9, true});
  const auto with = [](ModelSpec spec, auto change) {
    change(spec);
    return MessageOf(spec);
  };
  using S = ModelSpec;
  EXPECT_EQ(with(gpt2, [](S& s) { s.layers = 0; }), "model.layers: must be from 1 to 8192, not 0");
  EXPECT_EQ(with(gpt2, [](S& s) { s.heads = s.kv_heads = 5; }),
            "model.heads: 5 heads do not divide the width 12");
  EXPECT_EQ(with(gpt2, [](S& s) { s.kv_heads = 1; }),
            "model.kv_heads: gpt2 has one per head (3), not 1");
  EXPECT_EQ(with(gpt2, [](S& s) { s.attention_bias = false; }),
            "model.attention_bias: gpt2 always has it: leave it out or say true");
  EXPECT_EQ(with(gpt2, [](S& s) { s.dropout = 1; }),
            "model.attention_dropout: must be from 0 to below 1, not 1");
  EXPECT_EQ(with(gpt2, [](S& s) { s.dropout.embedding = -0.5; }),
            "model.embedding_dropout: must be from 0 to below 1, not -0.5");
  EXPECT_EQ(with(gpt2, [](S& s) { s.norm_eps = 0; }), "model.norm_eps: must be above 0");
  EXPECT_EQ(with(llama, [](S& s) { s.kv_heads = 3; }),
            "model.kv_heads: 3 do not divide the 4 heads");
  EXPECT_EQ(with(llama, [](S& s) { s.head_width = 5; }),
            "model.head_width: 5 is odd, and the rotary embedding turns pairs");
  EXPECT_EQ(with(llama, [](S& s) { s.heads = 1 << 12, s.head_width = 1 << 12; }),
            "model.head_width: 4096 heads of 4096 are wider than 1048576");
  EXPECT_EQ(with(llama, [](S& s) { s.family = "qwen2"; }),
            "model.attention_bias: qwen2 always has it: leave it out, say true, or use family: "
            "llama");
  EXPECT_EQ(
      with(llama, [](S& s) { s.family = "mistral", s.attention_bias = true; }),
      "model.attention_bias: mistral has none: leave it out, say false, or use family: llama");
  EXPECT_EQ(with(llama, [](S& s) { s.family = "mistral", s.window = 0; }),
            "model.window: must be from 1 to 1073741824, not 0");
  EXPECT_EQ(with(llama, [](S& s) { s.rope_scaling = RopeScaling{.factor = 0.5}; }),
            "model.rope_scaling: needs a factor from 1 to 1e6, 0 < low_freq_factor < "
            "high_freq_factor and an "
            "original sequence above 0");
  EXPECT_EQ(with(llama, [](S& s) { s.rotary_width = 8; }),
            "model.rotary_width: must be even and at most the head width, 6, not 8");
  EXPECT_EQ(with(llama, [](S& s) { s.family = "phi3"; }),
            "model.head_width: 4 heads of 6 are not as wide as the model, 12, as phi3's must be");
  const ModelSpec phi3 = Phi3Spec({2, 24, 4, 2, 6, 10, 17, 9, true});
  EXPECT_EQ(with(phi3, [](S& s) { s.attention_bias = true; }),
            "model.attention_bias: phi3 has none: leave it out, say false, or use family: llama");
  EXPECT_EQ(with(phi3, [](S& s) { s.rope_scaling = RopeScaling::Yarn(4, 9); }),
            "model.rope_scaling: phi3 has longrope alone");
  EXPECT_EQ(with(phi3,
                 [](S& s) {
                   s.rope_scaling = LongropeOf(s, 9);
                   s.rotary_width = 4;
                 }),
            "model.rope_scaling: needs short_factor with a factor above 0 and at most 1e6 for each "
            "of the 2 pairs");
}

}  // namespace
}  // namespace plimsoll::models
