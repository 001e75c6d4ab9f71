// `plimsoll train` where steps make no update: none of a step's targets counts, or loss scaling
// skips all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/closing_summary.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class UpdatesCommand : public testing::Test {
 protected:
  UpdatesCommand() {
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 1, width: 16, heads: 2, sequence: 16, dropout: 0.1}\n"
              "data: {train: " +
                  folder_ / "examples.jsonl" +
                  ", tokenizer: byte, packing: concatenate, order: consecutive}\n"
                  "train: {steps: 12, micro_batch: 1, log_every: 1, threads: 1}\n"
                  "memory: {calibrate: false}\n"
                  "log: {tensorboard: false, report: false}\n"
                  "save: {every: 3, keep: 10}\n");
    // 96 tokens: six samples, of which the second, third and fourth have no target.
    const std::string prompt(60, 'p'), completion(34, 'c');
    folder_.Write("examples.jsonl",
                  json{{"prompt", "q"}, {"completion", "aaaaaaaaaaa"}}.dump() + "\n" +
                      json{{"prompt", prompt}, {"completion", completion}}.dump());
  }

  Outcome Train(const std::string& run, const std::vector<std::string>& sets = {},
                const std::vector<std::string>& more = {}) const {
    return RunPlimsoll(WithSets({"train", yaml_, "--set", "run.dir=" + folder_ / run}, sets, more));
  }
  std::string Weights(const std::string& run) const {
    return ReadFile(folder_ / run + "/model/model.safetensors");
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
};

TEST_F(UpdatesCommand, AStepWithoutTargetsMakesNoUpdateAndTheRunGoesOn) {
  const Outcome whole = ExpectExit(0, Train("whole"));
  std::vector<int64_t> without;
  for (const json& row : JsonLines(ReadFile(folder_ / "whole/metrics.jsonl"))) {
    EXPECT_EQ(row.contains("targets"), row.at("loss").is_null());
    if (row.contains("targets")) without.push_back(row.at("step"));
  }
  ASSERT_GE(without.size(), 4u) << whole.out;
  ExpectText(whole.out, {"samples have no target that counts", "none of its targets counts",
                         "updates " + std::to_string(12 - without.size()) + " in 12 steps; " +
                             std::to_string(without.size()) + " without targets"});
  EXPECT_EQ(json::parse(ReadFile(folder_ / "whole/summary.json")).at("steps_without_targets"),
            without.size());

  // Each resumed run ends with the same bits.
  for (const std::string step : {"3", "6"}) {
    ExpectExit(0, Train("from" + step, {},
                        {"--resume", folder_ / "whole/snapshots/step-00000000" + step}));
    EXPECT_EQ(Weights("from" + step), Weights("whole"));
  }
}

// Steps 6 to 8 have no targets.
TEST_F(UpdatesCommand, SuchAStepLeavesTheWeightsAsTheyAre) {
  for (const auto& [steps, without] : {std::pair("6", 3), std::pair("9", 6)}) {
    ExpectExit(0, Train(steps, {std::string("train.steps=") + steps, "schedule.name=constant"}));
    EXPECT_EQ(json::parse(ReadFile(folder_ / steps + "/summary.json")).at("steps_without_targets"),
              without);
  }
  EXPECT_EQ(Weights("6"), Weights("9"));
}

TEST_F(UpdatesCommand, DataWithoutAnyTargetIsRefused) {
  folder_.Write("examples.jsonl",
                json{{"prompt", std::string(200, 'p')}, {"completion", ""}}.dump());
  ExpectExit(2, Train("none", {"model.sequence=16"}),
             {"data.train: no sample has a target that counts"});
}

TEST_F(UpdatesCommand, ARunWithoutAnyUpdateFailsAndSaysWhy) {
  const Outcome outcome = ExpectExit(
      1, Train("scaled", {"amp.dtype=fp16", "amp.loss_scale=static", "amp.init_scale=1e18"}));
  EXPECT_THAT(outcome.out,
              HasSubstr("updates 0 in 12 steps; 6 skipped by the loss scale, 6 without targets"));
  ExpectText(outcome.err, {"the run made no update", "amp.init_scale"});
  EXPECT_EQ(json::parse(ReadFile(folder_ / "scaled/run.json")).at("state"), "failed");
}

// Of texts and of volumes alike.
TEST(NoUpdateText, SaysWhyNoTargetCounts) {
  const std::string text = trainer::NoUpdateText({.without_targets = 3});
  ExpectText(text, {"prompts longer than model.sequence", "labels that are all ignored"});
  EXPECT_EQ(trainer::NoUpdateText({.updates = 1, .without_targets = 3}), "");
}

}  // namespace
}  // namespace plimsoll
