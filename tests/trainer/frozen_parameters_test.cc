// train.freeze by the model's names and by those of its checkpoints, and `plimsoll plan
// --parameters`, which lists both.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/budget_command.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kRest =
    "data: {synthetic: true}\n"
    "train: {steps: 1, micro_batch: 1, threads: 1, eval_every: 0}\n";
const std::string kLlama =
    "model: {family: llama, layers: 2, width: 16, heads: 2, vocab: 32, sequence: 8}\n" + kRest;
const std::string kGpt2 =
    "model: {family: gpt2, layers: 2, width: 16, heads: 2, vocab: 32, sequence: 8}\n" + kRest;

using Names = std::vector<std::string>;

Names Frozen(const std::string& yaml, const std::string& freeze) {
  const config::RunConfig config = LoadRunText(yaml, "run.yaml", {"train.freeze=" + freeze}).config;
  return FrozenFrom(config, *ModelFrom(config));
}

std::string Refusal(const std::string& yaml, const std::string& freeze) {
  return MessageOf<UserError>([&] { Frozen(yaml, freeze); }).value_or("");
}

TEST(FrozenParameters, HaveTwoNames) {
  EXPECT_EQ(Frozen(kLlama, "[model.layers.0.*]"), Frozen(kLlama, "[block.0.*]"));
  EXPECT_EQ(Frozen(kLlama, "[model.embed_tokens.weight]"), Frozen(kLlama, "[embed.*]"));
  EXPECT_EQ(Frozen(kLlama, "['*.input_layernorm.weight', 'block.1.*']"),
            Frozen(kLlama, "['*.norm_1.weight', 'block.1.*']"));
  EXPECT_EQ(Frozen(kGpt2, "['transformer.h.?.*', transformer.wpe.weight]"),
            Frozen(kGpt2, "['block.?.*', embed.position.weight]"));
  // Base models store their tensors without the prefix.
  EXPECT_EQ(Frozen(kGpt2, "[h.1.*]"), Frozen(kGpt2, "[block.1.*]"));
  EXPECT_EQ(Frozen(kLlama, "[layers.1.*]"), Frozen(kLlama, "[block.1.*]"));
  // A tied head is the embedding.
  EXPECT_EQ(Frozen(kGpt2, "[lm_head.weight]"), Frozen(kGpt2, "[transformer.wte.weight]"));
}

// Queries, keys and values are one parameter here, and three tensors there.
TEST(FrozenParameters, AreFrozenAsAWhole) {
  EXPECT_THAT(Refusal(kLlama, "[model.layers.0.self_attn.q_proj.weight, '*.v_proj.weight']"),
              AllOf(HasSubstr("--set: train.freeze: 'model.layers.0.self_attn.q_proj.weight' names "
                              "model.layers.0.self_attn.q_proj.weight, which is a part of the "
                              "parameter block.0.attn.qkv.weight together with "
                              "model.layers.0.self_attn.k_proj.weight"),
                    HasSubstr("name all of them, or none")));
  EXPECT_THAT(Frozen(kLlama, "['*.0.self_attn.?_proj.weight']"),
              ElementsAre("block.0.attn.proj.weight", "block.0.attn.qkv.weight"));
  EXPECT_THAT(Frozen(kLlama, "['*.0.*.q_proj.*', '*.0.*.k_proj.*', '*.0.*.v_proj.*']"),
              ElementsAre("block.0.attn.qkv.weight"));
  // By our own name, whatever else a pattern names a part of.
  EXPECT_THAT(Frozen(kLlama, "[block.0.attn.qkv.weight, model.layers.0.self_attn.q_proj.weight]"),
              ElementsAre("block.0.attn.qkv.weight"));
}

TEST(FrozenParameters, UnknownNamesAreRefusedWithBothKinds) {
  EXPECT_THAT(Refusal(kGpt2, "[transformer.layers.0.*]"),
              AllOf(HasSubstr("no parameter matches 'transformer.layers.0.*'; there are embed."),
                    HasSubstr(" and, in checkpoints, transformer.wte.weight, "),
                    HasSubstr("(plimsoll plan --parameters lists all)")));
  EXPECT_THAT(Refusal(kGpt2, "['*']"), HasSubstr("nothing to train"));
  EXPECT_THAT(Refusal(kGpt2, "['transformer.*']"), HasSubstr("nothing to train"));
}

TEST(FrozenParameters, OfAnEncoder) {
  const std::string vit =
      "model: {family: vit, layers: 1, width: 16, heads: 2, image_size: 8, patch: 4, "
      "channels: "
      "1, classes: 3}\n"
      "data: {source: synthetic_images}\n"
      "train: {steps: 1, micro_batch: 1, threads: 1, eval_every: 0}\n";
  const Names frozen = Frozen(vit, "[vit.encoder.*]");
  EXPECT_EQ(frozen, Frozen(vit, "[block.*]"));
  EXPECT_EQ(Frozen(vit, "[classifier.*]"), Frozen(vit, "[head.*]"));
}

using PlanParameters = BudgetCommand;

TEST_F(PlanParameters, AreListedWithBothNames) {
  const json plan = PlanJson(
      {"--parameters", "--set", "train.freeze=[model.layers.0.*]", "amp.dtype=bf16"}, kLlama);
  int64_t frozen = 0;
  for (const json& row : plan["parameters"]) {
    const std::string name = row["name"];
    EXPECT_EQ(row["trained"], !name.starts_with("block.0.")) << row;
    frozen += !row["trained"].get<bool>();
    int64_t elements = 1;
    for (const json& size : row["shape"]) elements *= size.get<int64_t>();
    EXPECT_EQ(row["bytes"], elements * (row["dtype"] == "bf16" ? 2 : 4)) << row;
    EXPECT_FALSE(row["checkpoint"].empty()) << row;
    if (name == "block.1.attn.qkv.weight") {
      EXPECT_EQ(row["checkpoint"], json({"model.layers.1.self_attn.q_proj.weight",
                                         "model.layers.1.self_attn.k_proj.weight",
                                         "model.layers.1.self_attn.v_proj.weight"}));
      EXPECT_EQ(row["dtype"], "bf16");
    }
  }
  EXPECT_GT(frozen, 5);
  const std::string table = Plan({"--parameters"}, kLlama).out;
  EXPECT_THAT(table, testing::StartsWith("parameter "));
  EXPECT_THAT(table, testing::ContainsRegex("\nblock.0.attn.qkv.weight +48×16  f32    trained +"
                                            "[0-9.]+ KiB  model.layers.0.self_attn.q_proj.weight\n"
                                            " +model.layers.0.self_attn.k_proj.weight\n"));
  // What is open is chosen for the list, which needs no budget.
  EXPECT_EQ(
      Plan({"--parameters", "--set", "checkpointing.policy=auto", "parallel.zero=auto"}, kLlama)
          .exit_code,
      0);
  ExpectError(Plan({"--parameters", "--sweep", "3"}, kLlama), 2, {"--parameters lists them alone"});
}

// Each names the stages that have it, and what it takes there.
TEST_F(PlanParameters, NameTheirStages) {
  const std::vector<std::string> staged = {"--parameters", "--set", "parallel.pipeline=2",
                                           "train.accumulate=2", "parallel.stages=[1,3]"};
  int64_t all = 0;
  const json plan = PlanJson(staged);
  for (const json& row : plan["parameters"]) {
    const std::string name = row["name"];
    const bool first = name == "embed.position.weight" || name.starts_with("block.0.");
    EXPECT_EQ(row["stages"], name == "embed.token.weight" ? json({0, 1}) : json({first ? 0 : 1}))
        << row;
    EXPECT_GT(row["bytes"], 0) << row;
    all += row["bytes"].get<int64_t>() * static_cast<int64_t>(row["stages"].size());
  }
  const std::string table = Plan(staged).out;
  EXPECT_THAT(table, testing::ContainsRegex("^parameter .* stage +bytes"));
  EXPECT_THAT(table, testing::ContainsRegex("\nblock.1.[^\n]* trained  1  +[0-9.]+ K?i?B"));
  EXPECT_THAT(table, HasSubstr(", " + FormatBytes(all) + " on all stages together\n"));
  EXPECT_FALSE(PlanJson({"--parameters"})["parameters"][0].contains("stages"));
}

// Adapters are parameters, too; the model's are frozen.
TEST_F(PlanParameters, IncludeAdapters) {
  folder_.Write("config.json",
                R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16,
                    "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64,
                    "vocab_size": 32, "max_position_embeddings": 8, "rms_norm_eps": 1e-5,
                    "hidden_act": "silu", "rope_theta": 10000.0})");
  const std::string lora = "model: {init_from: '" + folder_.path() + "', sequence: 8}\n" + kRest +
                           "lora: {rank: 2, targets: [q_proj]}\n";
  const json plan = PlanJson({"--parameters"}, lora);
  Names trained;
  for (const json& row : plan["parameters"]) {
    if (row["trained"].get<bool>()) trained.push_back(row["name"]);
  }
  EXPECT_THAT(trained, AllOf(Contains("block.0.attn.qkv.lora_a"), testing::SizeIs(4)));
}

}  // namespace
}  // namespace plimsoll::trainer
