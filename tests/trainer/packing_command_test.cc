// Packed examples and documents apart as users see them: train, resume, eval, generate, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;
using Arguments = std::vector<std::string>;

class PackingCommand : public testing::Test {
 protected:
  PackingCommand() {
    // Of 20, 12, 20, 12, 16 and 16 tokens with their ends: three full rows of 32.
    std::string lines;
    for (const int tokens : {20, 12, 20, 12, 16, 16}) {
      const auto letter = static_cast<char>('a' + lines.size() % 23);
      lines += "{\"prompt\": \"say: " + std::string(1, letter) + "\", \"completion\": \"" +
               std::string(static_cast<size_t>(tokens - 7), static_cast<char>(letter + 1)) +
               "\"}\n";
    }
    folder_.Write("qa.jsonl", lines);
    folder_.Write("held_out.jsonl", lines);
    Write("llama", "kv_heads: 1, ffn_width: 48, ");
    Write("gpt2", "");
  }

  void Write(const std::string& family, const std::string& sizes) const {
    folder_.Write(family + ".yaml", "model: {family: " + family + ", layers: 2, width: 32, " +
                                        "heads: 2, " + sizes +
                                        "sequence: 32}\n"
                                        "train: {steps: 3, threads: 2, log_every: 1}\n"
                                        "optimizer: {lr: 1e-3}\n"
                                        "data: {train: " +
                                        folder_.path() + "/qa.jsonl, eval: " + folder_.path() +
                                        "/held_out.jsonl, tokenizer: byte, order: consecutive}\n"
                                        "device: cpu\n"
                                        "memory: {calibrate: false}\n");
  }
  // Trains on all examples in every step.
  std::string Train(const std::string& family, const std::string& packing,
                    const Arguments& sets = {}, const Arguments& more = {}) const {
    const std::string run = family + "_" + packing;
    const Outcome outcome = RunPlimsoll(
        WithSets({"train", folder_ / (family + ".yaml"), "--set", "run.dir=" + folder_ / run,
                  "--set", "data.packing=" + packing, "--set",
                  packing == "none" ? "train.micro_batch=6" : "train.micro_batch=3"},
                 sets, more));
    return ExpectExit(0, outcome).out;
  }
  std::vector<json> Rows(const std::string& run) const {
    return JsonLines(folder_.Read(run + "/metrics.jsonl"));
  }
  std::vector<double> Losses(const std::string& run, const char* of = "loss") const {
    std::vector<double> losses;
    for (const json& row : Rows(run)) {
      if (row.contains(of)) losses.push_back(row.at(of));
    }
    return losses;
  }

  const TempFolder folder_;
};

// The log lists them, the end and the report count them, and the run learns as without them.
TEST_F(PackingCommand, LeavesOutExamplesThatCannotBeRead) {
  Train("llama", "best_fit");
  const std::string lines = folder_.Read("qa.jsonl");
  const size_t second = lines.find('\n') + 1;
  folder_.Write("qa.jsonl", lines.substr(0, second) + "{\"prompt\": 7}\n" + lines.substr(second) +
                                "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}\n");
  const Outcome refused =
      RunPlimsoll({"train", folder_ / "llama.yaml", "--set", "run.dir=" + folder_ / "refused"});
  ExpectText(ExpectExit(2, refused).err, {"2 of 8 examples cannot be read", "data.unreadable: skip",
                                          "qa.jsonl:2: ", "qa.jsonl:8: label: is false"});
  const std::vector<double> losses = Losses("llama_best_fit");
  const std::string said =
      Train("llama", "best_fit", {"data.unreadable=skip", "run.overwrite=true"});
  ExpectText(said, {"data: 2 of 8 examples of data.train cannot be read and are left out"});
  ExpectText(folder_.Read("llama_best_fit/report.html"), {"2 of 8 examples of data.train"});
  EXPECT_EQ(Losses("llama_best_fit"), losses);
}

// The law: an example in a packed row has the loss that it has alone.
TEST_F(PackingCommand, PackedExamplesLearnAsTheyDoAlone) {
  for (const std::string family : {"llama", "gpt2"}) {
    const std::string packed = Train(family, "best_fit", {"train.eval_every=3"});
    const std::string alone = Train(family, "none", {"train.eval_every=3"});
    EXPECT_THAT(packed, HasSubstr("6 examples in 3 rows of 32 tokens, 100.0 % full"));
    EXPECT_THAT(alone, HasSubstr("6 examples in 6 rows of 32 tokens, 50.0 % full"));
    const std::vector<double> one = Losses(family + "_best_fit"), two = Losses(family + "_none");
    ASSERT_EQ(one.size(), 3u);
    ASSERT_EQ(two.size(), 3u);
    EXPECT_NEAR(one[0], two[0], 1e-6);
    for (size_t step = 1; step < 3; ++step) EXPECT_NEAR(one[step], two[step], 1e-5);
    EXPECT_LT(one[2], one[0]);
    const std::vector<double> held_out = Losses(family + "_best_fit", "eval_loss"),
                              held_out_alone = Losses(family + "_none", "eval_loss");
    ASSERT_EQ(held_out.size(), 2u);  // before the first step and after the last
    EXPECT_THAT(held_out, Pointwise(DoubleNear(1e-5), held_out_alone));
    // Padding is no work: both ran 96 tokens a step.
    for (const char* packing : {"_best_fit", "_none"}) {
      for (const json& row : Rows(family + packing)) {
        if (!row.contains("tokens_per_s")) continue;
        const double tokens =
            row.at("tokens_per_s").get<double>() * row.at("step_ms").get<double>() * 1e-3;
        EXPECT_NEAR(tokens, 96, 1);
      }
      const json summary = json::parse(folder_.Read(family + packing + "/summary.json"));
      EXPECT_EQ(summary.at("tokens_per_step"), 96);
    }
  }
}

TEST_F(PackingCommand, TrainedModelsServeAllCommands) {
  Train("llama", "best_fit", {"train.eval_every=3"});
  const std::string run = folder_ / "llama_best_fit";
  const json own = json::parse(ExpectExit(0, RunPlimsoll({"eval", run, "--json"})).out);
  EXPECT_NEAR(own.at("loss").get<double>(), Losses("llama_best_fit", "eval_loss").back(), 1e-6);
  // Named examples are packed as well; text is read in windows.
  const auto of_file = [&](const std::string& file) {
    return json::parse(ExpectExit(0, RunPlimsoll({"eval", run, "--data", file, "--json"})).out);
  };
  const json named = of_file(folder_ / "held_out.jsonl");
  EXPECT_EQ(named.at("loss"), own.at("loss"));
  EXPECT_EQ(named.at("tokens"), own.at("tokens"));
  of_file(folder_.Write("text", std::string(200, 'x')));
  ExpectExit(0, RunPlimsoll({"generate", run, "--prompt", "say: a", "--tokens", "4"}));
  ExpectExit(0, RunPlimsoll({"export", run, "--to", folder_ / "exported"}));
}

TEST_F(PackingCommand, ResumesExactly) {
  const Arguments shuffled = {"data.order=shuffled", "save.every=2", "train.steps=4",
                              "train.micro_batch=2"};
  Train("llama", "best_fit", shuffled);
  const std::string all = folder_.Read("llama_best_fit/model/model.safetensors");
  const std::vector<double> losses = Losses("llama_best_fit");
  const std::string parts = "run.dir=" + folder_ / "parts";
  Arguments stopped = shuffled;
  stopped.insert(stopped.end(), {parts, "train.stop_after=2"});
  Train("llama", "best_fit", stopped);
  Arguments resumed = shuffled;
  resumed.push_back(parts);
  std::string file = folder_.Read("llama.yaml");
  file.replace(file.find("order: consecutive"), 5, "packing: none, order");
  const auto refused = RunPlimsoll(
      WithSets({"train", folder_.Write("none.yaml", file)}, resumed, {"--resume", "auto"}));
  ExpectExit(2, refused, {"data.packing: none, in the snapshot best_fit"});
  // As many tokens, but others.
  const std::string examples = folder_.Read("qa.jsonl");
  std::string changed = examples;
  changed.replace(changed.find("say:"), 4, "ask:");
  folder_.Write("qa.jsonl", changed);
  const Arguments again = {"train", folder_ / "llama.yaml", "--resume", "auto",
                           "--set", "data.packing=best_fit"};
  ExpectExit(2, RunPlimsoll(WithSets(again, resumed)),
             {"would not continue", "data.train: other tokens than in the snapshot", "checksum"});
  folder_.Write("qa.jsonl", examples);
  Train("llama", "best_fit", resumed, {"--resume", "auto"});
  EXPECT_EQ(Losses("parts"), losses);
  EXPECT_EQ(folder_.Read("parts/model/model.safetensors"), all);
}

// Without data.packing.
TEST_F(PackingCommand, PacksExamplesByDefault) {
  Train("llama", "best_fit");
  const Arguments open = {"train", folder_ / "llama.yaml",       "--set", "train.micro_batch=3",
                          "--set", "run.dir=" + folder_ / "open"};
  ExpectText(ExpectExit(0, RunPlimsoll(open)).out,
             {"3 rows of 32 tokens", "(data.packing: best_fit)"});
  EXPECT_EQ(Losses("open"), Losses("llama_best_fit"));
  EXPECT_THAT(folder_.Read("open/config.yaml"), HasSubstr("  packing: best_fit\n"));
  // Text stays in windows.
  const std::string text = folder_.Write("text", std::string(400, 'x'));
  ExpectExit(0, RunPlimsoll(WithSets(
                    open, {"data.train=" + text, "data.eval=" + text, "run.overwrite=true"})));
  EXPECT_THAT(folder_.Read("open/config.yaml"), HasSubstr("  packing: concatenate\n"));
}

// Examples were windows by default. Two epochs are four windows, or six packed rows.
TEST_F(PackingCommand, RunsOfTheEarlierDefaultGoOn) {
  const Arguments sets = {"train.steps=null", "train.epochs=2", "train.micro_batch=1",
                          "save.every=2"};
  const auto with = [&](const Arguments& more) {
    Arguments all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Train("llama", "concatenate", with({}));
  const std::string parts = "run.dir=" + folder_ / "parts";
  Train("llama", "concatenate", with({parts, "train.stop_after=2"}));
  const Arguments again = {"train", folder_ / "llama.yaml", "--resume", "auto"};
  ExpectText(ExpectExit(0, RunPlimsoll(WithSets(again, with({parts})))).out,
             {"data.packing: concatenate, as the run began"});
  EXPECT_EQ(Losses("parts").size(), 4u);
  EXPECT_EQ(Losses("parts"), Losses("llama_concatenate"));
  EXPECT_EQ(folder_.Read("parts/model/model.safetensors"),
            folder_.Read("llama_concatenate/model/model.safetensors"));

  // The configuration says it, or it is one of a version that knew nothing else.
  std::string yaml = folder_.Read("parts/config.yaml");
  const std::string line = "  packing: concatenate\n";
  ASSERT_NE(yaml.find(line), yaml.npos);
  const auto loss = [&] {
    return json::parse(ExpectExit(0, RunPlimsoll({"eval", folder_ / "parts", "--json"})).out)
        .at("loss");
  };
  const json windows = loss();
  folder_.Write("parts/config.yaml", yaml.erase(yaml.find(line), line.size()));
  EXPECT_EQ(loss(), windows);
  EXPECT_NE(json::parse(ExpectExit(0, RunPlimsoll({"eval", folder_ / "parts/model", "--run-file",
                                                   folder_ / "llama.yaml", "--json"}))
                            .out)
                .at("loss"),
            windows);
}

TEST_F(PackingCommand, SaysWhatItCannotDo) {
  const auto refuse = [&](const char* command, const Arguments& sets, const Arguments& parts) {
    ExpectRefusal(
        RunPlimsoll(WithSets(
            {command, folder_ / "llama.yaml", "--set", "run.dir=" + folder_ / "refused"}, sets)),
        parts);
  };
  refuse("train", {"data.packing=concatenate", "data.documents=apart"},
         {"data.documents", "apart needs a token that ends documents", "byte"});
  refuse("train", {"data.packing=best"}, {"data.packing", "best_fit"});
  const std::string text = folder_.Write("text", std::string(400, 'x'));
  refuse("train", {"data.packing=none", "data.train=" + text}, {"data.packing", "*.jsonl"});
}

}  // namespace
}  // namespace plimsoll
