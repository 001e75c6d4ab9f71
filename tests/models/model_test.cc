#include "models/model.h"

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

// For one token within a sequence of T: two for each weight of a matrix product, and causal
// attention over (T + 1) / 2 positions on average.
double FlopsPerToken(const ModelSpec& spec, int64_t sequence) {
  double weights = static_cast<double>(spec.vocab) * spec.width;  // the head
  const auto model = MakeModel(spec);
  for (const ParameterInfo& parameter : model->parameters()) {
    if (parameter.shape.rank() == 2 && parameter.name.starts_with("block.")) {
      weights += static_cast<double>(parameter.shape.elements());
    }
  }
  return 2 * weights + 4.0 * spec.heads * spec.head_width * (sequence + 1) / 2.0 * spec.layers;
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
}

}  // namespace
}  // namespace plimsoll::models
