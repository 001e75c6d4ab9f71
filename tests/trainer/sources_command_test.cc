// The data of a run, as users configure it: sources with weights, and the tokenizer that determines
// the vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::string kTokenizer = "tests/data/tokenizers/gpt2_style.json";

class Sources : public testing::Test {
 protected:
  Sources() {
    std::string large, small, examples;
    for (int i = 0; i < 400; ++i) large += "Number " + std::to_string(i) + " is alive and well.\n";
    for (int i = 0; i < 20; ++i) small += "Small talk " + std::to_string(i) + ".\n";
    for (int i = 0; i < 40; ++i) {
      const std::string number = std::to_string(i);
      examples += "{\"prompt\": \"after " + number + "?\", \"answer\": \" more\"}\n";
    }
    folder_.Write("large.txt", large);
    folder_.Write("small.txt", small);
    folder_.Write("examples.jsonl", examples);
    Write("[{files: " + folder_ / "large.txt" + ", weight: 2}, {files: " + folder_ / "small.txt" +
          "}, {files: " + folder_ / "examples.jsonl" + "}]");
  }

  void Write(const std::string& train) const {
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 1, width: 32, heads: 2, sequence: 16}\n"
              "data: {train: " +
                  train +
                  ", tokenizer: byte,\n"
                  "       eval_fraction: 0.2}\n"
                  "train: {steps: 20, micro_batch: 4, eval_every: 10, log_every: 0, threads: 1}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "memory: {summary: false, calibrate: false}\n"
                  "save: {every: 8, model: false}\n");
  }

  Outcome Train(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", yaml_, "--set", "run.dir=" + folder_ / run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunPlimsoll(arguments);
  }

  std::vector<std::string> Losses(const std::string& run) const {
    std::vector<std::string> losses;
    for (const json& row : JsonLines(ReadFile(folder_ / run + "/metrics.jsonl"))) {
      for (const char* key : {"loss", "eval_loss"}) {
        if (row.contains(key)) losses.push_back(row.at(key).dump());
      }
    }
    return losses;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
};

TEST_F(Sources, AreToldWithTheirSharesAndEpochs) {
  const Outcome outcome = ExpectExit(0, Train("run"));
  // 80 sequences of 16 tokens. The last fifth of the text is held out, from the start of a line.
  ExpectText(outcome.out, {folder_ / "large.txt" + ": ", " tokens, 50 % of the sequences, ",
                           folder_ / "small.txt" + ": ", folder_ / "examples.jsonl" + ": ",
                           " tokens, 25 % of the sequences, "});
  // 20 sequences from 15 windows.
  EXPECT_THAT(outcome.out, HasSubstr(", 25 % of the sequences, 1.33 epochs\n")) << outcome.out;
}

TEST_F(Sources, GoOnToTheBit) {
  ExpectExit(0, Train("whole"));
  ExpectExit(0, Train("stopped", {"--set", "train.stop_after=10"}));
  ExpectExit(0, Train("stopped", {"--resume", "auto"}));
  EXPECT_EQ(Losses("stopped"), Losses("whole"));

  // Other weights change the course, so they must be asked for by name.
  ExpectExit(0, Train("other", {"--set", "train.stop_after=10"}));
  const std::string before = ReadFile(yaml_);
  WriteFile(yaml_, std::string(before).replace(before.find("weight: 2"), 9, "weight: 3"));
  ExpectExit(2, Train("other", {"--resume", "auto"}), {"data.train: [{files: [", "weight: 3}"});
}

TEST_F(Sources, MistakesAreNamed) {
  Write("[{files: " + folder_ / "large.txt" + ", weight: -1}]");
  const Outcome weight = ExpectExit(2, Train("run"));
  EXPECT_THAT(weight.err, HasSubstr("run.yaml:2: data.train[0].weight: -1 is out of range"));
  folder_.Write("tiny.txt", "too short");
  Write("[{files: " + folder_ / "large.txt" + "}, {files: " + folder_ / "tiny.txt" + "}]");
  const Outcome tiny = ExpectExit(2, Train("run"));
  EXPECT_THAT(tiny.err, HasSubstr("run.yaml:2: data.train[1] (" + folder_ / "tiny.txt" + "): "));
}

// Neither plan nor config reads data to know it.
TEST_F(Sources, TheTokenizerGivesTheVocabulary) {
  Write(folder_ / "nowhere.txt");
  const std::string set = "data.tokenizer=" + kTokenizer;
  const Outcome config = ExpectExit(0, RunPlimsoll({"config", yaml_, "--set", set}));
  EXPECT_THAT(config.out, HasSubstr("\n  vocab: 601\n"));
  const Outcome plan = ExpectExit(0, RunPlimsoll({"plan", yaml_, "--json", "--set", set}));
  const Outcome said =
      RunPlimsoll({"plan", yaml_, "--json", "--set", set, "--set", "model.vocab=601"});
  EXPECT_EQ(json::parse(plan.out).at("parameters"), json::parse(said.out).at("parameters"));

  const Outcome ranks =
      ExpectExit(2, RunPlimsoll({"plan", yaml_, "--set", set, "--set", "parallel.tensor=2"}));
  ExpectText(ranks.err, {"2 ranks cannot share model.vocab 601 equally, which is that "
                         "of data.tokenizer (--set)",
                         "model.vocab: 602"});
  ExpectExit(2, RunPlimsoll({"plan", yaml_, "--set", "data.tokenizer=nowhere.json"}),
             {"--set: data.tokenizer: ", "nowhere.json"});
}

// With keys of its own beside those of token data.
class MaskedText : public Sources {
 protected:
  MaskedText() {
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 1, width: 32, heads: 2, sequence: 16}\n"
              "data: {source: masked_text, train: " +
                  folder_ / "large.txt" +
                  ", tokenizer: tests/data/tokenizers/wordpiece_vocab.txt,\n"
                  "       eval_fraction: 0.2, mask_fraction: 0.3}\n"
                  "train: {steps: 20, micro_batch: 4, eval_every: 10, log_every: 0, threads: 1}\n"
                  "memory: {summary: false, calibrate: false}\n"
                  "save: {every: 8, model: false}\n");
  }
};

TEST_F(MaskedText, TrainsAndGoesOnToTheBit) {
  const Outcome whole = ExpectExit(0, Train("whole"));
  EXPECT_THAT(whole.out, HasSubstr("  masked: 30 % of the tokens"));
  ExpectExit(0, Train("stopped", {"--set", "train.stop_after=10"}));
  ExpectExit(0, Train("stopped", {"--resume", "auto"}));
  EXPECT_EQ(Losses("stopped"), Losses("whole"));

  const Outcome eval = ExpectExit(0, RunPlimsoll({"eval", folder_ / "whole", "--json"}));
  EXPECT_NEAR(json::parse(eval.out).at("loss").get<double>(), std::stod(Losses("whole").back()),
              1e-6);

  ExpectExit(0, Train("other", {"--set", "train.stop_after=10"}));
  const std::string before = ReadFile(yaml_);
  WriteFile(yaml_, std::string(before).replace(before.find("0.3}"), 4, "0.2}"));
  ExpectExit(2, Train("other", {"--resume", "auto"}), {"data.mask_fraction: 0.2"});
}

TEST_F(MaskedText, SharesKeysWithTokenData) {
  const Outcome config = ExpectExit(0, RunPlimsoll({"config", yaml_}));
  const std::string vocab = ReadFile("tests/data/tokenizers/wordpiece_vocab.txt");
  const auto tokens = std::ranges::count(vocab, '\n');
  ExpectText(config.out,
             {"\n  vocab: " + std::to_string(tokens) + "\n", "\n  eval_fraction: 0.2\n"});
  EXPECT_THAT(config.out, Not(HasSubstr("\n  order:")));
  ExpectExit(0, RunPlimsoll({"plan", yaml_, "--json", "--set", "data.synthetic=true"}));

  const auto expect = [&](const std::vector<std::string>& sets, const std::string& message) {
    std::vector<std::string> more;
    for (const std::string& set : sets) more.insert(more.end(), {"--set", set});
    const Outcome outcome = Train("wrong", more);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  expect({"data.train=[{files: a}, {files: b}]"}, "--set: data.train: only data.source: tokens");
  expect({"data.eval=x"}, "data.eval_fraction: holds out training text, but data.eval names");
  expect({"data.train=[]"}, "data.train");
  expect({"data.train=/nowhere/x"}, "--set: data.train: no file matches");
  expect({"data.tokenizer=byte"}, "--set: data.tokenizer: byte has no token [PAD]");
  expect({"data.mask_share=0.95"}, "data.random_share: 0.1 and data.mask_share 0.95 (--set)");
  expect({"data.pairs=true", "data.eval_fraction=0"}, "data.pairs needs two documents");
  expect({"model.vocab=50"}, "run.yaml:2: data.tokenizer: ");
  ExpectExit(2, Train("wrong", {"--set", "data.source=labelled_text"}), {"is no *.jsonl"});
}

}  // namespace
}  // namespace plimsoll
