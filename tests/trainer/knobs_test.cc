// The table of knobs: every row keeps its promises, so that what walks the table may rely on them.
#include "trainer/resolve/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

config::RunConfig Open() {
  return LoadRunText(
             "model: {family: llama, layers: 4, width: 32, heads: 2, vocab: 96, sequence: 16}\n"
             "data: {synthetic: true}\n"
             "train: {micro_batch: 2, accumulate: 4, threads: 1, blocks_first: auto}\n"
             "optimizer: {place: auto, in_backward: auto, clip_grad_norm: 0}\n"
             "checkpointing: {policy: auto}\n"
             "memory: {weights: auto, gradients: auto, budget: 1GiB}\n"
             "debug: {host_apart: true}\n",
             "run.yaml")
      .config;
}

config::RunConfig OpenBatch() {
  return LoadRunText(
             "model: {family: llama, layers: 4, width: 32, heads: 2, vocab: 96, sequence: 16}\n"
             "data: {synthetic: true}\n"
             "train: {micro_batch: auto, global_batch: 12, threads: 1}\n"
             "optimizer: {place: auto}\n"
             "checkpointing: {policy: auto}\n"
             "memory: {budget: 1GiB}\n"
             "debug: {host_apart: true}\n",
             "run.yaml")
      .config;
}

// A value that is read from one run and set in another, as ranks exchange them, is that value.
TEST(Knobs, ValuesTravelAsTexts) {
  for (const config::RunConfig& open : {Open(), OpenBatch()}) {
    const auto model = ModelFrom(open);
    for (const config::RunConfig& made : Alternatives(open, *model)) {
      config::RunConfig copy = open;
      for (const Knob& knob : Knobs()) {
        SCOPED_TRACE(knob.key);
        const std::string value = knob.get(made);
        if (value != knob.get(open)) knob.set(copy, value);
        EXPECT_EQ(knob.get(copy), value);
      }
      EXPECT_EQ(copy.train.accumulate, made.train.accumulate);
      EXPECT_EQ(ChoicesJson(open, copy), ChoicesJson(open, made));
    }
  }
}

TEST(Knobs, EachAlternativeDecidesWhatIsOpenAndNothingElse) {
  for (const config::RunConfig& open : {Open(), OpenBatch()}) {
    const auto model = ModelFrom(open);
    const std::vector<config::RunConfig> all = Alternatives(open, *model);
    ASSERT_GE(all.size(), 4u);
    std::vector<std::string> texts;
    for (const config::RunConfig& made : all) {
      for (const Knob& knob : Knobs()) {
        SCOPED_TRACE(knob.key);
        const bool decided = knob.is_technique() || std::string(knob.key) == "train.micro_batch";
        EXPECT_FALSE(decided && knob.IsOpen(made));
        EXPECT_TRUE(knob.IsOpen(open) || knob.get(made) == knob.get(open));
      }
      texts.push_back(ChoicesText(open, made) + ChoicesJson(open, made).dump());
    }
    std::ranges::sort(texts);
    EXPECT_EQ(std::ranges::adjacent_find(texts), texts.end());  // each is another one
    for (const Knob& knob : Techniques()) EXPECT_FALSE(knob.IsUsed(all.front()));
  }
}

// The choices of a plan, written into a run file, are the same run.
TEST(Knobs, ChoicesAreWhatARunFileSays) {
  const config::RunConfig open = Open();
  const auto model = ModelFrom(open);
  for (const config::RunConfig& made : Alternatives(open, *model)) {
    config::RunConfig closed = open;
    const nlohmann::ordered_json choices = ChoicesJson(open, made);
    for (const Knob& knob : Knobs()) {
      if (!choices.contains(knob.key)) continue;
      const auto& value = choices[knob.key];
      knob.set(closed, value.is_string() ? value.get<std::string>() : value.dump());
    }
    EXPECT_EQ(ValuesText(closed, Reach::kDraft), ValuesText(made, Reach::kDraft));
    EXPECT_EQ(ChoicesText(open, closed), ChoicesText(open, made));
  }
}

config::RunConfig OpenLayout(int64_t ranks, const std::string& more) {
  config::RunConfig config =
      LoadRunText(
          "model: {family: llama, layers: 4, width: 48, heads: 6, ffn_width: 96, vocab: 96,\n"
          "        sequence: 16}\n"
          "data: {synthetic: true}\n"
          "memory: {budget: 1GiB}\n"
          "parallel: auto\n" +
              more,
          "run.yaml", {}, config::RankCount::Started(ranks))
          .config;
  CheckMesh(config, ranks);
  return config;
}

// Each layout is another mesh or stage, with the batch dealt to its data ranks; the file's
// micro-batch is the most that a rank takes at a time.
TEST(Knobs, LayoutsDealOutTheBatch) {
  const config::RunConfig open = OpenLayout(8, "train: {micro_batch: 8, global_batch: 32}\n");
  std::vector<std::string> meshes;
  for (const RankLayout& layout : LayoutsOf(open)) {
    const config::ParallelConfig& parallel = layout.config.parallel;
    ASSERT_EQ(parallel.data_ranks() * parallel.tensor_ranks(), 8);
    if (!layout.problem.empty()) {
      EXPECT_THAT(layout.problem, testing::HasSubstr("cannot share model.heads 6 equally"));
      EXPECT_THAT(parallel.tensor_ranks(), testing::AnyOf(4, 8));
      meshes.push_back("");
      continue;
    }
    const config::TrainConfig& train = layout.config.train;
    EXPECT_EQ(train.micro_batch * train.accumulate * parallel.data_ranks(), 32);
    EXPECT_EQ(train.micro_batch, parallel.data_ranks() == 8 ? 4 : 8);
    EXPECT_EQ(FirstOpenLayout(layout.config), nullptr);
    meshes.push_back(LayoutText(open, layout.config));
  }
  EXPECT_THAT(meshes,
              testing::ElementsAre(
                  "8 data × 1 tensor ranks, ZeRO 0", "8 data × 1 tensor ranks, ZeRO 1",
                  "8 data × 1 tensor ranks, ZeRO 2", "8 data × 1 tensor ranks, ZeRO 3",
                  "4 data × 2 tensor ranks, ZeRO 0", "4 data × 2 tensor ranks, ZeRO 1",
                  "4 data × 2 tensor ranks, ZeRO 2", "4 data × 2 tensor ranks, ZeRO 3", "", ""));
}

// A batch that not all numbers of data ranks divide leaves the layouts that can share it.
TEST(Knobs, LayoutsThatCannotShareTheBatchAreImpossible) {
  const config::RunConfig open = OpenLayout(6, "train: {micro_batch: auto, global_batch: 8}\n");
  for (const RankLayout& layout : LayoutsOf(open)) {
    EXPECT_EQ(layout.problem.empty(), 8 % layout.config.parallel.data_ranks() == 0)
        << layout.problem;
  }
}

// Predictions don't tell layouts apart that are as near as that; bytes do.
TEST(Knobs, OfLayoutsAsFastTheSmallestIsTaken) {
  const auto fastest = [](std::vector<LayoutCost> costs) { return FastestLayout(costs); };
  EXPECT_EQ(fastest({{1.0, 70}, {1.004, 60}, {1.006, 50}}), 1u);
  EXPECT_EQ(fastest({{1.004, 60}, {1.0, 60}}), 0u);
  EXPECT_EQ(fastest({{2.0, 10}, {1.0, 60}}), 1u);
}

TEST(Knobs, OneRankLeavesNoLayout) {
  const config::RunConfig alone = OpenLayout(1, "train: {micro_batch: 8}\n");
  EXPECT_EQ(FirstOpenLayout(alone), nullptr);
  EXPECT_FALSE(LeavesChoice(alone));
  ASSERT_EQ(LayoutsOf(alone).size(), 1u);
  EXPECT_EQ(alone.train.micro_batch, 8);
}

// A resumed run keeps its layout, and then its cut of the batch, on as many ranks alone.
TEST(Knobs, AResumedRunKeepsItsLayout) {
  const config::RunConfig open = OpenLayout(4, "train: {micro_batch: auto, global_batch: 16}\n");
  const ConfigTexts earlier = {{"parallel.data", "2"},     {"parallel.tensor", "2"},
                               {"parallel.zero", "1"},     {"parallel.sequence", "true"},
                               {"train.micro_batch", "4"}, {"train.accumulate", "2"}};
  config::RunConfig run = open;
  EXPECT_EQ(KeepChoices(run, earlier),
            "parallel.tensor: 2, parallel.zero: 1, train.micro_batch: 4, parallel.sequence: true");
  EXPECT_EQ(run.parallel.data, 2);
  EXPECT_EQ(run.train.accumulate, 2);
  EXPECT_FALSE(LeavesChoice(run));
  config::RunConfig fewer = OpenLayout(2, "train: {micro_batch: auto, global_batch: 16}\n");
  EXPECT_EQ(KeepChoices(fewer, earlier), "");
  EXPECT_TRUE(fewer.parallel.open_mesh());
  // On ranks that the earlier tensor ranks do not divide, fewer ones and more.
  for (const int64_t ranks : {2, 3, 6}) {
    config::RunConfig other = OpenLayout(ranks, "train: {micro_batch: auto, global_batch: 24}\n");
    EXPECT_EQ(KeepChoices(other, {{"parallel.data", "1"}, {"parallel.tensor", "4"}}), "") << ranks;
    EXPECT_TRUE(other.parallel.open_mesh());
  }
}

// A draft is shared by runs that differ in how programs are finished alone.
TEST(Knobs, DraftsAreSharedWhereOnlyTheLastPassesDiffer) {
  for (const Knob& knob : Techniques()) {
    config::RunConfig one = Open(), other = Open();
    for (const Knob& each : Techniques()) {
      each.Use(one, false);
      each.Use(other, std::string(each.key) == knob.key);
    }
    const bool alike = ValuesText(one, Reach::kDraft) == ValuesText(other, Reach::kDraft);
    EXPECT_EQ(alike, knob.reach == Reach::kFinish) << knob.key;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
