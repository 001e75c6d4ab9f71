// The table of knobs: every row keeps its promises, so that what walks the table may rely on them.
#include "trainer/settle/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/settle/from_config.h"

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
    EXPECT_TRUE(DraftsAlike(closed, made));
    EXPECT_EQ(ChoicesText(open, closed), ChoicesText(open, made));
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
    EXPECT_EQ(DraftsAlike(one, other), !knob.shapes_draft) << knob.key;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
