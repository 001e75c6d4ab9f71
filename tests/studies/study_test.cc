// Parsing of study files, and the messages about mistakes in them.
#include "studies/study.h"

#include <gtest/gtest.h>

#include "studies/values.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::studies {
namespace {

Study Parse(const std::string& text) {
  return ParseStudy("base: run.yaml\n" + text, "a/study.yaml");
}

void ExpectMistake(const std::string& text, std::initializer_list<std::string_view> parts) {
  ExpectUserError([&] { (void)Parse(text); }, parts);
}

std::vector<std::string> Texts(const Axis& axis) {
  std::vector<std::string> texts;
  for (const config::Tree& value : axis.values) texts.push_back(ShortText(axis.key, value));
  return texts;
}

TEST(StudyFile, IsReadWhole) {
  const Study study = Parse(R"(
title: All of it
dir: runs/all
set: {train: {micro_batch: 2}, optimizer.lr: 1e-3}
variants:
  base: {}
  low: {amp: {dtype: bf16}}
  peer: {command: "python3 peer.py"}
axes:
  checkpointing: {policy: [none, block]}
  train.seed: [1, 2, 3]
exclude: [{checkpointing.policy: block, train.seed: 3}]
include: [{optimizer.state_dtype: bf16}]
baseline: low
repeats: 4
order: written
order_seed: 7
measure: {warmup: 1, steps: 5, check_arena: false, profile: true}
broken: {loss_above: 9, loss_difference: 0.5, seconds: 60}
launch: {ranks: 4, mpirun: "mpirun --bind-to none -np {ranks}"}
)");
  EXPECT_EQ(study.base, "a/run.yaml");
  EXPECT_EQ(study.title, "All of it");
  EXPECT_EQ(study.dir, "runs/all");
  EXPECT_EQ(study.settings.size(), 2u);
  ASSERT_EQ(study.variants.size(), 3u);
  EXPECT_EQ(study.variants[1].settings.count("amp.dtype"), 1u);
  EXPECT_EQ(study.variants[2].command, "python3 peer.py");
  ASSERT_EQ(study.axes.size(), 2u);
  EXPECT_EQ(study.axes[0].key, "checkpointing.policy");
  EXPECT_EQ(Texts(study.axes[1]), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(study.exclude.size(), 1u);
  EXPECT_EQ(study.include.size(), 1u);
  EXPECT_EQ(study.baseline, "low");
  EXPECT_EQ(study.repeats, 4);
  EXPECT_EQ(study.order, RunOrder::kWritten);
  EXPECT_EQ(study.measure.all_steps(), 6);
  EXPECT_FALSE(study.measure.check_arena);
  EXPECT_TRUE(study.measure.profile);
  EXPECT_EQ(study.broken.loss_difference, 0.5);
  EXPECT_EQ(study.launch.ranks, 4);
}

TEST(StudyFile, HasDefaults) {
  const Study study = Parse("variants: {one: {}}\n");
  EXPECT_EQ(study.dir, "runs/study");
  EXPECT_EQ(study.title, "study");
  EXPECT_EQ(study.repeats, 1);
  EXPECT_EQ(study.order, RunOrder::kShuffled);
  EXPECT_TRUE(study.measure.check_arena);
}

TEST(StudyFile, MistakesNameTheirPlaceAndTheWayOut) {
  ExpectMistake("axes:\n  amp: {dtpye: [bf16]}\n",
                {"a/study.yaml:3: axes.amp.dtpye: unknown key, did you mean amp.dtype?"});
  ExpectMistake("axes:\n  amp.dtpye: [bf16]\n",
                {"a/study.yaml:3: axes.amp.dtpye: unknown key, did you mean amp.dtype?"});
  ExpectMistake("repeets: 3\n", {"a/study.yaml:2: repeets: unknown key, did you mean repeats?"});
  ExpectMistake("measure: {wramup: 3}\n", {":2: measure.wramup", "did you mean measure.warmup?"});
  ExpectMistake("axes:\n  amp.dtype: [bf16, fp8]\n", {":3: amp.dtype", "fp8", "is not one of"});
  ExpectMistake("axes: {train.micro_batch: [1, -2]}\n", {"train.micro_batch", "out of range"});
  ExpectMistake("axes: {amp.dtype: []}\n", {":2: axes.amp.dtype: the list is empty"});
  ExpectMistake("axes: {}\n", {":2: axes: expected keys"});
  ExpectMistake("axes: {amp.dtype: [bf16, bf16]}\n", {"bf16 is there twice"});
  ExpectMistake("axes: {amp: {dtype: [bf16]}, amp.dtype: [fp16]}\n", {"given twice"});
  ExpectMistake("variants:\n  one: {run.dir: x}\n", {":3: variants.one.run.dir", "remove it"});
  ExpectMistake("variants:\n  one: {log.mlflow: true}\n", {":3: variants.one.log.mlflow"});
  ExpectMistake("variants: {one: {command: ls, amp.dtype: bf16}}\n", {"variants.one.command"});
  ExpectMistake("variants: [one]\n", {"variants", "expected names"});
  ExpectMistake("repeats: 0\n", {"repeats", "between 1 and 1000"});
  ExpectMistake("repeats: many\n", {"repeats", "an integer", "many"});
  ExpectMistake("repeats:\n", {"repeats", "no value"});
  ExpectMistake("order: random\n", {"order", "shuffled, written"});
  ExpectMistake("exclude: {amp.dtype: bf16}\n", {"exclude", "list of combinations"});
  ExpectMistake("exclude: [{}]\n", {"exclude[0]", "names no keys"});
  ExpectMistake("launch: {mpirun: mpirun}\n", {"launch.mpirun", "{ranks}"});
  ExpectMistake("measure: 3\n", {"measure", "expected keys of this section"});
  ExpectMistake("model: {layers: 3}\n", {"model", "belongs in a run file"});
  ExpectUserError([] { (void)ParseStudy("title: x\n", "study.yaml"); }, {"base: missing"});
  ExpectUserError([] { (void)ParseStudy("- 1\n", "study.yaml"); },
                  {"expected the keys of a study"});
}

TEST(StudyFile, RangesRunThroughNumbersAndSizes) {
  const auto values = [](const std::string& axis) {
    return Texts(Parse("axes: {" + axis + "}\n").axes[0]);
  };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(values("train.micro_batch: {from: 1, to: 8, times: 2}"), (Strings{"1", "2", "4", "8"}));
  EXPECT_EQ(values("train.micro_batch: {from: 2, to: 7, step: 2}"), (Strings{"2", "4", "6"}));
  EXPECT_EQ(values("train.micro_batch: {from: 1, to: 5, count: 3}"), (Strings{"1", "3", "5"}));
  // Integers: values that are rounded to the same one are listed once.
  EXPECT_EQ(values("train.micro_batch: {from: 1, to: 2, count: 4}"), (Strings{"1", "2"}));
  EXPECT_EQ(values("optimizer.lr: {from: 0.1, to: 0.3, step: 0.1}").size(), 3u);
  EXPECT_EQ(values("memory.budget: {from: 1MiB, to: 2MiB, count: 2}"),
            (Strings{"1.00 MiB", "2.00 MiB"}));
  EXPECT_EQ(values("amp.dtype: bf16"), (Strings{"bf16"}));

  ExpectMistake("axes: {train.seed: {from: 1, to: 5}}\n", {"one of step, count and times"});
  ExpectMistake("axes: {train.seed: {from: 5, to: 1, step: 1}}\n", {"`to` is below `from`"});
  ExpectMistake("axes: {train.seed: {from: 1, to: 5, step: 0}}\n", {"step must be above 0"});
  ExpectMistake("axes: {train.seed: {from: 1, to: 5, times: 1}}\n", {"times must be above 1"});
  ExpectMistake("axes: {train.seed: {from: 1, to: 5, count: 0}}\n", {"the list is empty"});
  ExpectMistake("axes: {train.seed: {from: 1, to: 99999, step: 1}}\n", {"more than 10000 values"});
  ExpectMistake("axes: {train.seed: {form: 1, to: 5, step: 1}}\n", {"form: unknown key"});
  ExpectMistake("axes: {amp.dtype: {from: 1, to: 5, step: 1}}\n", {"list the values"});
}

TEST(StudyFile, SettingsReadBackAsTheyWere) {
  const Study study = Parse(R"(
variants:
  one:
    checkpointing: {policy: selective, recompute: [norms, "block.*.fc"]}
    sample.prompt: "a $${b}: #c"
    memory.budget: null
    optimizer.betas: [0.9, 0.99]
)");
  const std::vector<std::string> sets = SetsOf(study.variants[0].settings);
  config::MistakeList mistakes;
  const config::KeyTrees again =
      config::ReadLayers("memory: {budget: 1GiB}", "run.yaml", nullptr, sets, mistakes);
  EXPECT_EQ(again.count("memory.budget"), 0u);
  for (const auto& [key, value] : study.variants[0].settings) {
    if (key == "memory.budget") continue;
    const config::Key& row = *config::FindKey(key);
    EXPECT_EQ(config::ParseKey(row, again.at(key)), config::ParseKey(row, value)) << key;
  }
}

TEST(StudyFile, ReferenceStandsInTheDocumentation) {
  EXPECT_NE(ReadFile("docs/ablations.md").find(StudyReference()), std::string::npos)
      << "put the table that plimsoll ablate --reference prints into docs/ablations.md";
}

}  // namespace
}  // namespace plimsoll::studies
