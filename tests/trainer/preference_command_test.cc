// Learning from pairs of answers as users see it: ten steps as TRL's DPOTrainer makes them, resume,
// eval, plan, refusals. preferences/ is made by make_preferences.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/preference_runs.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

constexpr const char* kReferences = "reference_log_probs.safetensors";

class PreferenceCommand : public PreferenceRuns {
 protected:
  PreferenceCommand() : PreferenceRuns("cpu") {}
};

TEST_F(PreferenceCommand, LearnsAsTrlDoes) {
  const std::string text = Train("dpo", {});
  EXPECT_THAT(text, HasSubstr("20 pairs in 20 rows of 128 tokens"));
  ExpectAsTrl("dpo", "dpo");
  Train("ipo", {"preference.loss=ipo", "preference.beta=0.2"});
  ExpectAsTrl("ipo", "ipo");
  Train("dpo_sft", {"preference.sft_weight=0.5"});
  ExpectAsTrl("dpo_sft", "dpo_sft");
}

// TRL's trainer gives the same ten steps for an adapter whose config has lora_dropout 0.2.
TEST_F(PreferenceCommand, DrawsNoDropoutUnlessAsked) {
  const fs::path folder = folder_.path();
  for (const char* part : {"model", "adapter"}) {
    fs::copy(fs::path(kPreferences) / part, folder / part, fs::copy_options::recursive);
  }
  const auto set = [&](const std::string& file, const char* key, double rate) {
    json config = json::parse(folder_.Read(file));
    config[key] = rate;
    fs::remove(folder / file);
    folder_.Write(file, config.dump());
  };
  set("model/config.json", "attention_dropout", 0.3);
  set("adapter/adapter_config.json", "lora_dropout", 0.2);
  const Arguments own = {"model.init_from=" + (folder / "model").string(),
                         "lora.init_from=" + (folder / "adapter").string()};
  const auto with = [&](const Arguments& more) {
    Arguments all = own;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_THAT(Train("off", own), HasSubstr("dropout: off"));
  ExpectAsTrl("off", "dpo");
  EXPECT_THAT(Train("model", with({"preference.dropout=model"})), Not(HasSubstr("dropout: off")));
  EXPECT_NE(Steps("model")[1].at("loss"), Steps("off")[1].at("loss"));
  const Outcome refused = ExpectExit(2, Run("refused", with({"lora.dropout=0.1"})));
  ExpectText(refused.err, {"lora.dropout: 0.1", "preference.dropout: off"});
  ExpectExit(0, RunPlimsoll({"generate", folder / "off", "--prompt", "1", "--tokens", "1"}));
}

// No loss depends on how pairs are split into micro-steps, nor on what is recomputed.
TEST_F(PreferenceCommand, LearnsTheSameInAnyMicroSteps) {
  Train("one", {"train.micro_batch=4", "train.steps=5"});
  Train("four",
        {"train.micro_batch=1", "train.accumulate=4", "train.steps=5", "debug.check_arena=true"});
  Train("recomputed", {"train.micro_batch=4", "train.steps=5", "checkpointing.policy=block"});
  const std::vector<json> one = Steps("one"), four = Steps("four"), again = Steps("recomputed");
  ASSERT_EQ(one.size(), 5u);
  for (size_t step = 0; step < one.size(); ++step) {
    for (const char* name : {"loss", "rewards_margins", "logps_chosen"}) {
      const double value = one[step].at(name);
      EXPECT_NEAR(four.at(step).at(name).get<double>(), value, 1e-5 * (1 + std::abs(value)));
      EXPECT_EQ(again.at(step).at(name), one[step].at(name)) << name << " of step " << step;
    }
  }
}

TEST_F(PreferenceCommand, LearnsOfPackedPairs) {
  const std::string text =
      Train("packed", {"data.packing=best_fit", "train.micro_batch=4", "train.steps=1"});
  EXPECT_THAT(text, HasSubstr("20 pairs in"));
  EXPECT_THAT(text, Not(HasSubstr("20 pairs in 20 rows")));
  const double loss = Steps("packed").at(0).at("loss");
  EXPECT_NEAR(loss, std::log(2.0), 1e-5) << "the model is its own reference";

  // Pairs do not see their neighbours in a row.
  const auto evaluated = [&](const std::string& run, Arguments sets) {
    sets.insert(sets.end(),
                {"train.micro_batch=4", "train.steps=1", "train.eval_every=1", "optimizer.lr=0"});
    Train(run, sets);
    return JsonLines(folder_.Read(run + "/metrics.jsonl")).back();
  };
  const json packed = evaluated("together", {"data.packing=best_fit"});
  const json apart = evaluated("apart", {"data.packing=none"});
  for (const char* name : {"eval_logps_chosen", "eval_logps_rejected"}) {
    const double want = apart.at(name);
    EXPECT_NEAR(packed.at(name).get<double>(), want, 1e-5 * std::abs(want)) << name;
  }
}

TEST_F(PreferenceCommand, ResumesExactlyWithItsReferences) {
  const Arguments sets = {"save.every=2", "train.steps=4", "train.eval_every=2"};
  Train("whole", sets);
  Arguments first = sets;
  first.push_back("train.stop_after=2");
  Train("parts", first);
  const std::string kept = folder_.Read("parts/reference_log_probs.safetensors");
  Train("parts", sets, {"--resume", "auto"});
  EXPECT_EQ(folder_.Read("parts/reference_log_probs.safetensors"), kept);
  const std::vector<json> whole = Steps("whole"), parts = Steps("parts");
  ASSERT_EQ(whole.size(), 4u);
  ASSERT_EQ(parts.size(), 4u);
  for (size_t step = 0; step < 4; ++step) {
    EXPECT_EQ(parts[step].at("loss"), whole[step].at("loss")) << step;
    EXPECT_EQ(parts[step].at("rewards_margins"), whole[step].at("rewards_margins")) << step;
  }
}

// Before anything is written.
TEST_F(PreferenceCommand, RefusesReferencesThatDoNotFit) {
  const Arguments sets = {"save.every=1", "train.steps=3", "train.stop_after=2"};
  Train("run", sets);
  const std::string others =
      folder_.Write("other.jsonl", "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}\n");
  Train("other",
        {"data.train=" + others, "data.eval=" + others, "train.micro_batch=1", "train.steps=1"});
  const std::string name = std::string("run/") + kReferences;
  const std::string kept = folder_.Read(name), metrics = folder_.Read("run/metrics.jsonl"),
                    status = folder_.Read("run/run.json");
  std::string damaged = kept;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  const Arguments longer = {"save.every=1", "train.steps=3"};
  const auto refuses = [&](const std::string& content, const std::string& reason) {
    SCOPED_TRACE(reason);
    folder_.Write(name, content);
    ExpectRefusal(Run("run", longer, {"--resume", "auto"}), {kReferences, reason});
    EXPECT_EQ(folder_.Read("run/metrics.jsonl"), metrics);
    EXPECT_EQ(folder_.Read("run/run.json"), status);
  };
  refuses(damaged, "is damaged (its checksum); restore the file, or begin the run anew");
  refuses(kept.substr(0, kept.size() / 2), "the file is damaged or incomplete");
  refuses("", "the file is damaged or incomplete");
  refuses(folder_.Read(std::string("other/") + kReferences),
          "texts: they are of the pairs that the run began with, and these are others");
  fs::remove(folder_ / name);
  ExpectRefusal(Run("run", longer, {"--resume", "auto"}), {kReferences, "does not exist"});
  folder_.Write(name, kept);
  Train("run", longer, {"--resume", "auto"});
  EXPECT_EQ(Steps("run").size(), 3u);
}

// A run that resumes in another directory takes its references with it.
TEST_F(PreferenceCommand, KeepsReferencesInAnotherDirectory) {
  Train("from", {"save.every=1", "train.steps=3", "train.stop_after=1"});
  Train("to", {"save.every=1", "train.steps=3", "train.stop_after=2"},
        {"--resume", folder_ / "from"});
  EXPECT_EQ(folder_.Read(std::string("to/") + kReferences),
            folder_.Read(std::string("from/") + kReferences));
  fs::remove_all(folder_ / "from");
  Train("to", {"save.every=1", "train.steps=3"}, {"--resume", "auto"});
  Train("whole", {"train.steps=3"});
  EXPECT_EQ(Steps("to").back().at("loss"), Steps("whole").back().at("loss"));
}

// Killed with its references and without a snapshot: it starts anew, with the same references.
TEST_F(PreferenceCommand, StartsAnewWithoutASnapshot) {
  Train("whole", {"train.steps=3"});
  const pid_t child =
      StartPlimsoll(WithSets({"train", folder_ / "run.yaml"},
                             {"run.dir=" + folder_ / "run", "train.steps=100000", "save.every=0"}),
                    folder_.path());
  const std::string name = std::string("run/") + kReferences;
  for (int i = 0; i < 3000 && !fs::exists(folder_ / name); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(fs::exists(folder_ / name)) << folder_.Read("err");
  ExpectRefusal(Run("run", {"train.steps=3"}, {"--resume", "auto"}),
                {"run.dir", "without a snapshot to go on from", "run.overwrite: true"});
  Train("run", {"train.steps=3", "run.overwrite=true"}, {"--resume", "auto"});
  EXPECT_EQ(folder_.Read(name), folder_.Read(std::string("whole/") + kReferences));
  const std::vector<json> whole = Steps("whole"), anew = Steps("run");
  ASSERT_EQ(anew.size(), 3u);
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(anew[step].at("loss"), whole.at(step).at("loss")) << step;
  }
}

TEST_F(PreferenceCommand, EvaluatesAgainstItsReferences) {
  Train("run", {"train.eval_every=10"});
  const json own = json::parse(ExpectExit(0, RunPlimsoll({"eval", folder_ / "run", "--json"})).out);
  EXPECT_EQ(own.at("pairs"), 20);
  json last;
  for (const json& row : JsonLines(folder_.Read("run/metrics.jsonl"))) {
    if (row.contains("eval_loss")) last = row;
  }
  EXPECT_NEAR(own.at("loss").get<double>(), last.at("eval_loss").get<double>(), 1e-6);
  EXPECT_NEAR(own.at("rewards_margins").get<double>(),
              last.at("eval_rewards_margins").get<double>(), 1e-5);
  const std::string other =
      folder_.Write("other.jsonl", "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}\n");
  const Outcome refused = RunPlimsoll({"eval", folder_ / "run", "--data", other});
  ExpectRefusal(refused, {"reference_log_probs.safetensors", "2 of 2 texts"});
}

TEST_F(PreferenceCommand, SaysWhatDoesNotGoTogether) {
  const auto refuses = [&](const Arguments& sets, const std::vector<std::string>& parts) {
    ExpectRefusal(Run("refused", sets), parts);
  };
  refuses({"data.packing=concatenate"}, {"data.packing", "preference.loss"});
  refuses({"data.too_long=split"}, {"data.too_long", "preference.loss"});
  refuses({"data.loss_on=all"}, {"data.loss_on", "preference.loss"});
  ExpectExit(2, Run("refused", {"preference.loss=none"}),
             {"pairs.jsonl:1", "preference.loss: dpo"});
}

}  // namespace
}  // namespace plimsoll
