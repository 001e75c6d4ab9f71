// What an adapter's run trains besides the adapter: a head that starts afresh, modules that are
// named; and that adapters go with the base that they were trained over.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

class LoraModules : public testing::Test {
 protected:
  Outcome Train(const std::string& yaml, const std::string& run, const Arguments& sets = {},
                const Arguments& more = {}) const {
    return ExpectExit(
        0, RunPlimsoll(WithSets({"train", yaml, "--set", "run.dir=" + folder_ / run}, sets, more)));
  }
  void ExpectRefused(const Arguments& arguments, const Arguments& parts) const {
    ExpectRefusal(RunPlimsoll(arguments), parts);
  }
  std::string Adapter(const std::string& run) const {
    return folder_.Read(run + "/adapter/adapter_model.safetensors");
  }
  json AdapterConfig(const std::string& run) const {
    return json::parse(folder_.Read(run + "/adapter/adapter_config.json"));
  }
  double Loss(Arguments arguments) const {
    arguments.insert(arguments.begin(), "eval");
    arguments.push_back("--json");
    return json::parse(ExpectExit(0, RunPlimsoll(arguments)).out).at("loss");
  }
  std::vector<double> HeldOut(const std::string& run) const {
    std::vector<double> losses;
    for (const json& parsed : JsonLines(folder_.Read(run + "/metrics.jsonl"))) {
      if (parsed.contains("eval_loss")) losses.push_back(parsed.at("eval_loss"));
    }
    return losses;
  }
  // Continues a trained model, as whoever fine-tunes a base further.
  void TrainFurther(const std::string& yaml, const std::string& run) const {
    Train(yaml, "further", {"train.steps=1", "save.every=0"});
    std::filesystem::copy(folder_ / "further/model/model.safetensors",
                          folder_ / run + "/model/model.safetensors",
                          std::filesystem::copy_options::overwrite_existing);
  }

  const TempFolder folder_;
  const std::string rest_ =
      "optimizer: {lr: 1e-2}\nschedule: {name: constant}\ndevice: cpu\n"
      "memory: {summary: false, calibrate: false}\n";
};

// A classifier over a masked-language model, whose pooler and classifier no file has.
class FreshHead : public LoraModules {
 protected:
  FreshHead() {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
    const std::string tokenizer = folder_.Write("vocab.txt", vocabulary);
    std::string lines, text;
    for (int i = 0; i < 30; ++i) {
      lines += json({{"text", std::string(3, static_cast<char>('a' + i % 3)) + " text"},
                     {"label", std::vector<std::string>{"apple", "pear", "plum"}[i % 3]}})
                   .dump() +
               "\n";
      text += "some more words of text\n";
    }
    folder_.Write("texts.jsonl", lines);
    folder_.Write("texts.txt", text);
    const std::string masked =
        "data: {source: masked_text, train: " + folder_ / "texts.txt, tokenizer: " + tokenizer +
        "}\ntrain: {steps: 2, micro_batch: 4, eval_every: 0, threads: 1}\n" + rest_;
    folder_.Write(
        "base.yaml",
        "model: {family: bert, layers: 2, width: 16, heads: 2, sequence: 12, init_std: 0.2}\n" +
            masked);
    folder_.Write("masked.yaml",
                  "model: {init_from: " + base_ + ", task: masked_lm, sequence: 12}\n" + masked);
    folder_.Write("run.yaml",
                  "model: {init_from: " + base_ +
                      ", task: classification, classes: 3, sequence: 12}\n"
                      "lora: {rank: 2, targets: [query, value]}\n"
                      "data: {source: labelled_text, train: " +
                      folder_ / "texts.jsonl, eval_fraction: 0.4, tokenizer: " + tokenizer +
                      "}\ntrain: {steps: 40, micro_batch: 6, eval_every: 20, "
                      "eval_sequences: 0, threads: 1}\nsave: {every: 20}\n" +
                      rest_);
    Train(folder_ / "base.yaml", "base");
  }

  const std::string base_ = folder_ / "base/model";
  const std::string masked_ = folder_ / "masked.yaml", yaml_ = folder_ / "run.yaml";
};

TEST_F(FreshHead, IsTrainedAndStoredWithTheAdapter) {
  const Outcome outcome = Train(yaml_, "run");
  ExpectText(outcome.out, {"model.init_from: pooler.dense.weight, pooler.dense.bias, "
                           "classifier.weight, classifier.bias start afresh: ",
                           "stored with the adapter (lora.modules_to_save)"});
  const json config = AdapterConfig("run");
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_THAT(config["modules_to_save"], ElementsAre("bert.pooler.dense", "classifier"));
  for (const char* name : {"classifier.weight", "bert.pooler.dense.bias"}) {
    EXPECT_THAT(Adapter("run"), HasSubstr(std::string("base_model.model.") + name));
  }
  EXPECT_THAT(folder_.Read("run/config.yaml"),
              HasSubstr("modules_to_save: [bert.pooler.dense, classifier]"));
  // A and B of query and value, 2·(2·16 + 16·2) in each layer; the pooler; the classifier.
  EXPECT_EQ(json::parse(folder_.Read("run/summary.json")).at("trained_parameters"),
            2 * 2 * 64 + 16 * 17 + 3 * 17);

  const std::vector<double> held_out = HeldOut("run");
  ASSERT_EQ(held_out.size(), 3u);
  EXPECT_LT(held_out.back(), 0.5 * held_out.front());  // the first letter says it
  EXPECT_NEAR(Loss({folder_ / "run"}), held_out.back(), 1e-6);
  EXPECT_NEAR(Loss({folder_ / "run", "--step", "20"}), held_out[1], 1e-6);
  EXPECT_THAT(ExpectExit(0, RunPlimsoll({"predict", folder_ / "run", "--text", "bbb text"})).out,
              HasSubstr("pear"));

  // Merged weights are a classifier of transformers' form.
  ExpectExit(0, RunPlimsoll({"export", folder_ / "run", "--to", folder_ / "merged", "--merge"}));
  ExpectText(folder_.Read("merged/config.json"),
             {"BertForSequenceClassification", "\"1\": \"pear\""});
  EXPECT_NEAR(Loss({folder_ / "merged", "--run-file", yaml_}), held_out.back(), 1e-5);
  ExpectExit(
      0, RunPlimsoll({"export", folder_ / "run", "--to", folder_ / "exported", "--step", "40"}));
  EXPECT_EQ(folder_.Read("exported/adapter_model.safetensors"), Adapter("run"));
  EXPECT_NEAR(Loss({base_, "--adapter", folder_ / "exported", "--run-file", yaml_}),
              held_out.back(), 1e-6);
}

TEST_F(FreshHead, ResumesToTheBit) {
  for (const std::string more : {"optimizer.ema=0.9", "amp.dtype=bf16", "memory.weights=host",
                                 "optimizer.in_backward=true"}) {
    SCOPED_TRACE(more);
    const Arguments sets = {more, "optimizer.place=host", "optimizer.clip_grad_norm=0",
                            "run.overwrite=true"};
    Arguments stopped = sets;
    stopped.push_back("train.stop_after=20");
    Train(yaml_, "run", sets);
    Train(yaml_, "parts", stopped);
    Train(yaml_, "parts", sets, {"--resume", "auto"});
    EXPECT_EQ(Adapter("parts"), Adapter("run"));
    if (more.starts_with("optimizer.ema")) {
      const std::string file = "/adapter_ema/adapter_model.safetensors";
      EXPECT_EQ(folder_.Read("parts" + file), folder_.Read("run" + file));
      EXPECT_NE(folder_.Read("run" + file), Adapter("run"));
      EXPECT_NE(Loss({folder_ / "run", "--ema"}), Loss({folder_ / "run"}));
    }
  }
}

TEST_F(FreshHead, ContinuesFromAnAdapterWithOrWithoutAHead) {
  Train(yaml_, "run");
  const std::string from = "lora.init_from=" + folder_ / "run/adapter";
  // Another line, since the file gives the adapter's settings itself.
  const std::string next = folder_.Write(
      "next.yaml", "extends: run.yaml\nlora: {init_from: " + folder_ / "run/adapter" + "}\n");
  Train(next, "next", {"train.steps=1", "train.eval_every=1"});
  EXPECT_NEAR(HeldOut("next").front(), HeldOut("run").back(), 1e-6);
  EXPECT_THAT(AdapterConfig("next")["modules_to_save"],
              ElementsAre("bert.pooler.dense", "classifier"));

  Train(masked_, "guesses", {"lora.rank=2", "lora.targets=[query, value]"});
  EXPECT_TRUE(AdapterConfig("guesses")["task_type"].is_null());
  const Outcome outcome = Train(yaml_, "headed", {"lora.init_from=" + folder_ / "guesses/adapter"});
  EXPECT_THAT(outcome.out, HasSubstr("classifier.bias start afresh"));
  EXPECT_LT(HeldOut("headed").back(), 0.5 * HeldOut("headed").front());
}

// Its bias is a part of a module with the decoder, which is the token embedding.
TEST_F(FreshHead, OfAMaskedLanguageModelIsRefused) {
  Train(yaml_, "whole", {"lora.rank=0"});
  ExpectRefused({"train", masked_, "--set", "run.dir=" + folder_ / "refused", "--set",
                 "lora.rank=2", "--set", "model.init_from=" + folder_ / "whole/model"},
                {"lora.modules_to_save", "cls.predictions.bias", "without lora.rank"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

TEST_F(FreshHead, GoesWithItsBaseAlone) {
  Train(yaml_, "run");
  Train(yaml_, "stopped", {"train.stop_after=20"});
  const std::string before = ReadFile(base_ + "/model.safetensors");
  TrainFurther(masked_, "base");
  EXPECT_EQ(ReadFile(base_ + "/model.safetensors").size(), before.size());
  const std::string other = base_ + " holds now";
  ExpectRefused({"eval", folder_ / "run"}, {"run/adapter: ", "over other weights than " + other});
  ExpectRefused({"eval", folder_ / "run", "--step", "20"}, {"step-000000020", other});
  ExpectRefused({"eval", base_, "--adapter", folder_ / "run/adapter", "--run-file", yaml_},
                {"run/adapter: ", other});
  ExpectRefused({"predict", folder_ / "run", "--text", "aaa"}, {other});
  for (const Arguments& more : {Arguments{}, Arguments{"--merge"}, Arguments{"--step", "20"}}) {
    Arguments arguments = {"export", folder_ / "run", "--to", folder_ / "to"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ExpectRefused(arguments, {other});
  }
  ExpectRefused({"train", yaml_, "--set", "run.dir=" + folder_ / "stopped", "--resume", "auto"},
                {"cannot continue", "model.init_from, " + base_, "lora.init_from"});
  // A run of its own may begin with it, and says so.
  const Outcome outcome = Train(yaml_, "moved", {"lora.init_from=" + folder_ / "run/adapter"});
  EXPECT_THAT(outcome.err, HasSubstr("was trained over other weights than " + base_));
  WriteFile(base_ + "/model.safetensors", before);
  Train(yaml_, "stopped", {}, {"--resume", "auto"});
  EXPECT_EQ(Adapter("stopped"), Adapter("run"));
  ExpectExit(0, RunPlimsoll({"eval", folder_ / "run"}));
}

// Of a language model: named modules, and new tokens.
class NamedModules : public LoraModules {
 protected:
  NamedModules() {
    std::string words;
    for (int i = 0; i < 200; ++i) words += "Six, seven: number " + std::to_string(i) + ".\n";
    folder_.Write("text", words);
    const std::string data = "data: {train: " + folder_ / "text" +
                             ", format: text, tokenizer: byte, eval_fraction: 0.1}\n"
                             "train: {steps: 4, micro_batch: 2, eval_every: 4, threads: 1}\n" +
                             rest_;
    for (const bool tied : {false, true}) {
      const std::string name = tied ? "tied" : "base";
      Train(folder_.Write(name + ".yaml",
                          fmt::format("model: {{family: llama, layers: 2, width: 32, heads: 2, "
                                      "ffn_width: 48, sequence: 16, tied: {}}}\n{}",
                                      tied, data)),
            name);
    }
    folder_.Write("run.yaml",
                  "model: {init_from: " + folder_ / "base/model" + ", sequence: 16}\n" + data);
  }

  const std::string yaml_ = folder_ / "run.yaml";
};

TEST_F(NamedModules, AreTrainedInFull) {
  Train(yaml_, "run",
        {"lora.rank=2", "lora.targets=[q_proj, o_proj]",
         "lora.modules_to_save=[lm_head, layers.0.self_attn.o_proj]", "lora.dropout=0.25"});
  EXPECT_THAT(AdapterConfig("run")["modules_to_save"],
              ElementsAre("lm_head", "model.layers.0.self_attn.o_proj"));
  EXPECT_EQ(AdapterConfig("run")["task_type"], "CAUSAL_LM");
  const std::string adapter = Adapter("run");
  EXPECT_THAT(adapter, HasSubstr("layers.1.self_attn.o_proj.lora_A"));
  EXPECT_THAT(adapter, Not(HasSubstr("layers.0.self_attn.o_proj.lora_A")));
  EXPECT_NEAR(Loss({folder_ / "run"}), HeldOut("run").back(), 1e-6);
  // Settings that a run leaves open are those of the adapter, its dropout as well.
  Train(yaml_, "next", {"lora.init_from=" + folder_ / "run/adapter"});
  const std::string config = folder_.Read("next/config.yaml");
  ExpectText(config,
             {"dropout: 0.25", "modules_to_save: [lm_head, model.layers.0.self_attn.o_proj]"});
  const auto refused = [&](const Arguments& sets, const Arguments& parts) {
    ExpectRefused(WithSets({"train", yaml_, "--set", "run.dir=" + folder_ / "refused"}, sets),
                  parts);
  };
  refused({"lora.rank=2", "lora.modules_to_save=[score]"},
          {"--set: lora.modules_to_save: no module is called 'score'", "lm_head"});
  refused({"lora.rank=2", "lora.targets=[o_proj]", "lora.modules_to_save=[o_proj]"},
          {"--set: lora.targets", "lora.modules_to_save trains in full"});
}

TEST_F(NamedModules, TrainTheRowsOfNewTokens) {
  const Outcome outcome = Train(yaml_, "grown", {"model.vocab=260"});
  EXPECT_THAT(outcome.out,
              HasSubstr("model.vocab: 4 new tokens: rows 256-259 of embed.token.weight and "
                        "head.weight begin at the mean of " +
                        folder_ / "base/model"));
  EXPECT_EQ(json::parse(folder_.Read("grown/model/config.json")).at("vocab_size"), 260);
  EXPECT_NEAR(Loss({folder_ / "grown"}), HeldOut("grown").back(), 1e-6);
  Train(yaml_, "stopped", {"model.vocab=260", "save.every=2", "train.stop_after=2"});
  ExpectExit(0, RunPlimsoll({"eval", folder_ / "stopped"}));
  Train(yaml_, "stopped", {"model.vocab=260", "save.every=2"}, {"--resume", "auto"});
  EXPECT_EQ(folder_.Read("stopped/model/model.safetensors"),
            folder_.Read("grown/model/model.safetensors"));

  const Arguments adapts = {"model.vocab=260", "lora.rank=2", "save.every=4",
                            "lora.modules_to_save=[lm_head, embed_tokens]"};
  Train(yaml_, "run", adapts);
  EXPECT_NEAR(Loss({folder_ / "run"}), HeldOut("run").back(), 1e-6);
  EXPECT_NEAR(Loss({folder_ / "run", "--step", "4"}), HeldOut("run").back(), 1e-6);
  ExpectExit(0, RunPlimsoll({"export", folder_ / "run", "--to", folder_ / "merged", "--merge"}));
  EXPECT_EQ(json::parse(folder_.Read("merged/config.json")).at("vocab_size"), 260);

  const auto refused = [&](const Arguments& sets, const Arguments& parts) {
    ExpectRefused(WithSets({"train", yaml_, "--set", "run.dir=" + folder_ / "refused"}, sets),
                  parts);
  };
  refused({"model.vocab=258", "model.init_from=" + folder_ / "grown/model"},
          {"--set: model.vocab: 258 tokens are fewer than the checkpoint's 260", "remove it"});
  refused({"lora.init_from=" + folder_ / "run/adapter"},
          {"adapter_model.safetensors", "more tokens than the base has: say model.vocab: 260"});
  // Frozen rows stay at the mean, also in what is exported.
  const auto stays = [&](const std::string& run, const Arguments& sets, const char* warning) {
    EXPECT_THAT(Train(yaml_, run, sets).err, HasSubstr(warning));
    EXPECT_NEAR(Loss({folder_ / run}), HeldOut(run).back(), 1e-6);
  };
  stays("frozen", {"model.vocab=260", "train.freeze=[embed.*]"},
        "model.vocab: the new rows of embed.token.weight stay there: train.freeze");
  stays("beside", {"model.vocab=260", "lora.rank=2"},
        "the new rows of embed.token.weight and head.weight stay there: lora.modules_to_save");
  ExpectExit(0, RunPlimsoll({"export", folder_ / "beside", "--to", folder_ / "filled", "--merge"}));
  EXPECT_NEAR(Loss({folder_ / "filled", "--run-file", yaml_}), HeldOut("beside").back(), 1e-5);

  // A tied head is trained with the embedding that it is.
  Train(yaml_, "tied_run",
        {"model.vocab=260", "lora.rank=2", "lora.modules_to_save=[lm_head, embed_tokens]",
         "model.init_from=" + folder_ / "tied/model"});
  EXPECT_NEAR(Loss({folder_ / "tied_run"}), HeldOut("tied_run").back(), 1e-6);
}

}  // namespace
}  // namespace plimsoll
