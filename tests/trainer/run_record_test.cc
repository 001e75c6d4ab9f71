#include "trainer/save_and_resume/run_record.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/axes.h"
#include "models/family.h"
#include "tests/support/expect_error.h"
#include "trainer/config/load.h"
#include "trainer/save_and_resume/earlier_defaults.h"
#include "trainer/save_and_resume/weight_source.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;

config::RunConfig Config(const std::string& more, const std::vector<std::string>& sets = {}) {
  return config::LoadText(
             "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 16, vocab: 64}\n"
             "data: {synthetic: true}\n" +
                 more,
             "run.yaml", sets)
      .config;
}

RunRecord Record(const config::RunConfig& config) {
  const auto model =
      models::MakeModel(*models::FindFamily(config.model.family), config.model.settings);
  RunRecord record = RecordOf(config, *model);
  record.plan = "0123 4 5";
  record.train_tokens = 1000;
  record.sequences_per_step = config.train.micro_batch;
  record.sequences = 80;
  return record;
}

TEST(RunRecord, SaysAgainWhatItWasTold) {
  RunRecord record = Record(Config("optimizer: {lr: 1e-3}\n"));
  record.class_names = {"déjà", "vu"};
  record.mesh = Mesh({DataAxis(4), TensorAxis(1)});
  record.evaluation = {.last = 40, .best = 2.0 / 3, .best_step = 30, .without_gain = 1};
  const RunRecord read = ParseRunRecord(ToJson(record), "m.json");
  EXPECT_EQ(ToJson(read), ToJson(record));
  EXPECT_EQ(read.config.at("optimizer.lr"), "0.001");
  EXPECT_EQ(read.model.at("model.layers"), "2");
  EXPECT_EQ(read.evaluation.best, 2.0 / 3);
  EXPECT_EQ(read.class_names, record.class_names);
  EXPECT_EQ(read.mesh, record.mesh);
  EXPECT_EQ(read.sequences, 80);
  EXPECT_EQ(read.divergence.objectives.at(0).limits[0], kNoLossLimit);
  record.mesh = Mesh({PipelineAxis(3), DataAxis(2), TensorAxis(1)});
  EXPECT_EQ(ParseRunRecord(ToJson(record), "m.json").mesh, record.mesh);
}

TEST(RunRecord, KnowsEvaluationsThatNeverWereOrNeverWereFinite) {
  RunRecord record = Record(Config(""));
  EXPECT_EQ(ParseRunRecord(ToJson(record), "m.json").evaluation.last, -1);
  record.evaluation = {.last = 4, .without_gain = 2};
  const EvaluationState read = ParseRunRecord(ToJson(record), "m.json").evaluation;
  EXPECT_EQ(read.last, 4);
  EXPECT_EQ(read.best, std::numeric_limits<double>::infinity());
  EXPECT_EQ(read.without_gain, 2);
}

TEST(RunRecord, KeepsLossesToTheBit) {
  RunRecord record = Record(Config(""));
  const LossHistory history{.losses = {0.1f, 1 / 3.0f, 7}, .limits = {kNoLossLimit, 0.7f}};
  record.divergence = {.objectives = {history},
                       .lr_factor = 0.1 * 0.1,
                       .rollbacks = 2,
                       .counts = {.updates = 5, .overflows = 1, .spikes = 2, .without_targets = 3}};
  DivergenceState read = ParseRunRecord(ToJson(record), "m.json").divergence;
  ASSERT_EQ(read.objectives.size(), 1u);
  EXPECT_EQ(read.objectives[0].losses, history.losses);
  EXPECT_EQ(read.objectives[0].limits, history.limits);
  EXPECT_EQ(read.lr_factor, 0.1 * 0.1);
  EXPECT_EQ(read.rollbacks, 2);
  EXPECT_EQ(read.counts.updates, 5);
  EXPECT_EQ(read.counts.without_targets, 3);
  EXPECT_EQ(read.counts.steps(), 11);
  // A single objective is written as in versions without several objectives.
  const json divergence = json::parse(ToJson(record)).at("divergence");
  EXPECT_EQ(divergence.size(), 5u);
  EXPECT_EQ(divergence.at("losses").size(), 3u);

  const LossHistory other{.losses = {2.5f}, .limits = {0.2f, kNoLossLimit}};
  record.divergence.objectives = {history, other};
  read = ParseRunRecord(ToJson(record), "m.json").divergence;
  ASSERT_EQ(read.objectives.size(), 2u);
  EXPECT_EQ(read.objectives[0].losses, history.losses);
  EXPECT_EQ(read.objectives[1].losses, other.losses);
  EXPECT_EQ(read.objectives[1].limits, other.limits);
}

// Evaluations by the loss are written as in versions without other metrics.
TEST(RunRecord, KnowsByWhichMetricAnEvaluationWasTheBest) {
  RunRecord record = Record(Config(""));
  record.evaluation = {.last = 4, .best = 2, .best_step = 4};
  EXPECT_EQ(json::parse(ToJson(record)).at("evaluation").size(), 4u);
  EvaluationState read = ParseRunRecord(ToJson(record), "m.json").evaluation;
  EXPECT_EQ(read.monitor, "loss");
  EXPECT_FALSE(read.larger_is_better);
  record.evaluation.monitor = "accuracy";
  record.evaluation.larger_is_better = true;
  read = ParseRunRecord(ToJson(record), "m.json").evaluation;
  EXPECT_EQ(read.monitor, "accuracy");
  EXPECT_TRUE(read.larger_is_better);
}

// Snapshots of earlier versions do not say over which weights adapters were trained.
TEST(RunRecord, GoesOnOverTheSameBaseAlone) {
  const config::RunConfig config = Config("");
  RunRecord saved = Record(config), now = Record(config);
  EXPECT_EQ(ToJson(saved).find("\"base\""), std::string::npos);
  now.base = "1-0123";
  RequireContinues(saved, now, config, "step-5");
  saved.base = "1-0123";
  EXPECT_EQ(ParseRunRecord(ToJson(saved), "m.json").base, "1-0123");
  RequireContinues(saved, now, config, "step-5");
  now.base = "1-4567";
  ExpectUserError(
      [&] { RequireContinues(saved, now, config, "step-5"); },
      {"run.yaml: cannot continue step-5", "model.init_from", "other weights", "put those back"});
}

// Versions that drew other masks said nothing about them.
TEST(RunRecord, NamesTheMapOfDropout) {
  json object = json::parse(ToJson(Record(Config(""))));
  EXPECT_EQ(object.at("dropout_map"), 3);
  const auto warning = [](const RunRecord& saved, const models::DropoutRates& rates,
                          double adapters = 0) {
    return DropoutWarning(saved, rates, adapters, "step-5");
  };
  EXPECT_EQ(warning(ParseRunRecord(object.dump(), "m.json"), 0.1), "");
  object.erase("dropout_map");
  const RunRecord old = ParseRunRecord(object.dump(), "m.json");
  EXPECT_EQ(old.dropout_map, 1);
  EXPECT_EQ(warning(old, 0.1).find("step-5: written by a version"), 0u);
  EXPECT_EQ(warning(old, 0), "");
  // Map 2 is another one for what tensor ranks share.
  RunRecord shared = old;
  shared.dropout_map = 2;
  models::DropoutRates hidden;
  hidden.hidden = 0.1;
  EXPECT_EQ(warning(shared, 0.1), "");
  shared.mesh = Mesh({DataAxis(1), TensorAxis(2)});
  EXPECT_NE(warning(shared, 0.1), "");
  EXPECT_EQ(warning(shared, hidden), "");
  EXPECT_NE(warning(shared, hidden, 0.1), "");
  shared.config["parallel.sequence"] = "true";
  EXPECT_NE(warning(shared, hidden), "");
  object["dropout_map"] = 0;
  ExpectUserError([&] { ParseRunRecord(object.dump(), "m.json"); }, {"dropout_map"});
}

// Versions that resampled labels to the nearest voxel said nothing about it.
TEST(RunRecord, NamesTheWayThatLabelsAreResampled) {
  RunRecord record = Record(Config(""));
  record.config["data.source"] = "volumes";
  record.config["data.spacing"] = "[1.5]";
  json object = json::parse(ToJson(record));
  const auto warning = [&] {
    return LabelsWarning(ParseRunRecord(object.dump(), "m.json"), "step-5");
  };
  EXPECT_EQ(warning(), "");
  object.erase("label_resampling");
  EXPECT_EQ(warning().find("step-5: written by a version"), 0u);
  // Volumes that keep their voxels are not resampled, and other data have none.
  object["config"].erase("data.spacing");
  EXPECT_EQ(warning(), "");
  object["config"]["data.spacing"] = "[1.5]";
  object["config"]["data.source"] = "text";
  EXPECT_EQ(warning(), "");
}

// The sum of tokens may be unchanged.
TEST(RunRecord, NoticesSourcesThatHaveChanged) {
  const config::RunConfig config = Config("");
  RunRecord saved = Record(config), now = saved;
  saved.source_tokens = {600, 400};
  now.source_tokens = {500, 500};
  saved = ParseRunRecord(ToJson(saved), "m.json");
  ExpectUserError([&] { RequireContinues(saved, now, config, "step-5"); },
                  {"would not continue", "data.train: sources of 500, 500 tokens", "600, 400"});
  saved.source_tokens = {};  // of an earlier version
  RequireContinues(saved, now, config, "step-5");
}

// The number of tokens may be unchanged.
TEST(RunRecord, NoticesTextsThatHaveChanged) {
  const config::RunConfig config = Config("");
  RunRecord saved = Record(config), now = saved;
  saved.source_checksums = {"01234567", "", "89abcdef"};
  now.source_checksums = {"01234567", "11111111", "22222222"};
  saved = ParseRunRecord(ToJson(saved), "m.json");
  ExpectUserError([&] { RequireContinues(saved, now, config, "step-5"); },
                  {"would not continue", "data.train[2]: other tokens", "89abcdef", "--set"});
  // What --set asks for may change the tokens.
  for (const char* key : {"data.train", "data.eval_fraction", "data.chat_template"}) {
    config::RunConfig changed = config;
    changed.origins[key] = "--set";
    RequireContinues(saved, now, changed, "step-5");
  }
  now.source_checksums[2] = "";  // a template asks for the date
  RequireContinues(saved, now, config, "step-5");
  now = Record(config);
  now.source_checksums = {"01234567"};
  saved.source_checksums = {};  // of an earlier version
  RequireContinues(saved, now, config, "step-5");
}

TEST(RunRecord, SomethingElseIsRefused) {
  for (const char* text : {"{}", "[]", R"({"mesh":{"data":0,"tensor":1,"zero":0}})"}) {
    ExpectUserError([&] { ParseRunRecord(text, "m.json"); }, {"m.json: "});
  }
}

// The reasons why `file` with `sets` cannot continue from a snapshot of the plain configuration.
std::string ProblemOf(const std::string& file, const std::vector<std::string>& sets = {}) {
  const config::RunConfig config = Config(file, sets);
  return MessageOf<UserError>(
             [&] { RequireContinues(Record(Config("")), Record(config), config, "step-5"); })
      .value_or("none");
}

TEST(RunRecord, OtherWaysOfDoingTheWorkMayDiffer) {
  EXPECT_EQ(ProblemOf(""), "none");
  EXPECT_EQ(ProblemOf("checkpointing: {policy: block}\nsave: {every: 7}\n"
                      "run: {dir: elsewhere}\nlog: {csv: false}\n"),
            "none");
  EXPECT_EQ(ProblemOf("train: {stop_after: 9, threads: 1, log_every: 3}\n"), "none");
}

TEST(RunRecord, WhatTheTensorsDependOnMayNot) {
  const std::string message = ProblemOf("", {"model.layers=3", "optimizer.name=sgd"});
  for (const char* part :
       {"run.yaml: cannot continue step-5: ", "model.layers: 3, in the snapshot 2",
        "optimizer.name: sgd, in the snapshot adamw"}) {
    EXPECT_NE(message.find(part), message.npos) << message;
  }
}

TEST(RunRecord, WhatSetsTheCourseMustBeAskedFor) {
  const std::string message =
      ProblemOf("schedule: {warmup: 3}\ntrain: {micro_batch: 4, seed: 1}\n");
  for (const char* part :
       {"would not continue", "schedule.warmup: 3, in the snapshot 0",
        "train.seed: 1, in the snapshot 1337", "4 sequences a step, in the snapshot 8"}) {
    EXPECT_NE(message.find(part), message.npos) << message;
  }
  EXPECT_EQ(message.find("data.seed"), message.npos) << message;  // it only follows another key
  EXPECT_EQ(ProblemOf("", {"schedule.warmup=3", "train.micro_batch=4", "train.seed=1"}), "none");
  EXPECT_EQ(ProblemOf("", {"data.seed=1"}), "none");
  EXPECT_EQ(ProblemOf("", {"model.seed=1"}), "none");  // the weights are in the snapshot
  // data.seed, if set on its own, must stay.
  ExpectUserError(
      [] {
        RequireContinues(Record(Config("", {"data.seed=7"})), Record(Config("")), Config(""),
                         "step-5");
      },
      {"data.seed: 1337, in the snapshot 7"});
}

// Places that follow model.dropout do so again; a place of its own must stay.
TEST(RunRecord, DropoutOfAPlaceFollowsThatOfAll) {
  EXPECT_EQ(ProblemOf("", {"model.dropout=0.2"}), "none");
  EXPECT_EQ(ProblemOf("", {"model.attention_dropout=0.2"}), "none");
  const config::RunConfig own = Config("", {"model.attention_dropout=0.2"});
  ExpectUserError([&] { RequireContinues(Record(own), Record(Config("")), Config(""), "step-5"); },
                  {"would not continue", "model.attention_dropout: 0, in the snapshot 0.2"});
  RequireContinues(Record(own), Record(own), own, "step-5");
}

TEST(RunRecord, EarlierVersionsJoinedDocuments) {
  const auto config = [](const std::string& more) {
    return config::LoadText(
               "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 16}\n"
               "data: {train: a.jsonl, tokenizer: byte" +
                   more + "}\n",
               "run.yaml", {})
        .config;
  };
  const config::RunConfig joined = config(", packing: concatenate, begin: none"),
                          packed = config(", packing: best_fit, begin: none");
  RunRecord old = Record(joined);
  for (const char* key : {"data.packing", "data.too_long", "data.documents", "data.begin"}) {
    EXPECT_EQ(old.config.erase(key), 1u) << key;
  }
  old = ParseRunRecord(ToJson(old), "m.json");
  RequireContinues(old, Record(joined), joined, "step-5");
  ExpectUserError([&] { RequireContinues(old, Record(packed), packed, "step-5"); },
                  {"would not continue", "data.packing: best_fit, in the snapshot concatenate"});

  // What the file leaves open stays as it was.
  config::RunConfig open = config(", too_long: drop"), said = packed;
  EXPECT_EQ(open.data.packing, config::Packing::kBestFit);
  const std::vector<std::string> none;
  EXPECT_EQ(KeepEarlierDefaults(open, Record(open).config), none);
  EXPECT_EQ(KeepEarlierDefaults(said, old.config), none);
  EXPECT_EQ(said.data.packing, config::Packing::kBestFit);
  // The tokenizer asks for no beginning, so that nothing is said of it.
  EXPECT_EQ(KeepEarlierDefaults(open, old.config),
            std::vector<std::string>{"data.packing: concatenate"});
  EXPECT_EQ(open.data.begin, config::BeginToken::kNone);
  EXPECT_EQ(open.data.packing, config::Packing::kConcatenate);
  RequireContinues(old, Record(open), open, "step-5");
}

// BERT describes itself with its dropout.
TEST(RunRecord, EarlierVersionsHadOneRateOfDropout) {
  const auto bert = [](const std::string& dropout) {
    return config::LoadText(
               "model: {family: bert, layers: 2, width: 32, heads: 2, sequence: 16, vocab: 64" +
                   dropout + "}\ndata: {source: masked_text, synthetic: true}\n",
               "run.yaml", {})
        .config;
  };
  RunRecord old = Record(bert(", dropout: 0.2"));
  for (auto* settings : {&old.config, &old.model}) {
    EXPECT_EQ(std::erase_if(*settings,
                            [](const auto& entry) { return entry.first.ends_with("_dropout"); }),
              2u);
  }
  old = ParseRunRecord(ToJson(old), "m.json");
  EXPECT_NE(SavedModel(old, bert(", dropout: 0.2"), "step-5"), nullptr);
  const config::RunConfig same = bert(", dropout: 0.2"), other = bert(", dropout: 0.1"),
                          own = bert(", dropout: 0.2, hidden_dropout: 0.1");
  RequireContinues(old, Record(same), same, "step-5");
  ExpectUserError([&] { RequireContinues(old, Record(other), other, "step-5"); },
                  {"would not continue", "model.dropout: 0.1, in the snapshot 0.2"});
  ExpectUserError([&] { RequireContinues(old, Record(own), own, "step-5"); },
                  {"would not continue", "model.hidden_dropout: 0.1, in the snapshot 0.2"});
  old.model["model.layers"] = "3";
  ExpectUserError([&] { SavedModel(old, same, "step-5"); }, {"step-5: ", "another model"});
}

}  // namespace
}  // namespace plimsoll::trainer
