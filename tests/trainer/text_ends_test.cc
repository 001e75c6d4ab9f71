// Ends of texts as a model's folder says them: training puts the tokenizer's own after each text,
// generation stops at each, and the files that say so go along.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

class TextEndsCommand : public testing::Test {
 protected:
  // A checkpoint in base/, whose tokenizer has the bytes, <|endoftext|> (256), <|im_end|> (257) and
  // <eos> (258), and examples.jsonl.
  TextEndsCommand() {
    json tokenizer = json::parse(ReadFile("tests/data/tokenizers/gpt2_style.json"));
    json& model = tokenizer["model"];
    json bytes = json::object();
    for (const auto& [token, id] : model["vocab"].items()) {
      if (id < 256) bytes[token] = id;
    }
    model["vocab"] = bytes;
    model["merges"] = json::array();
    tokenizer["added_tokens"] = json::array();
    for (const char* token : {"<|endoftext|>", "<|im_end|>", "<eos>"}) {
      tokenizer["added_tokens"].push_back(
          {{"content", token}, {"id", 256 + tokenizer["added_tokens"].size()}, {"special", true}});
    }
    folder_.Write(
        "start.yaml",
        "model: {family: llama, layers: 1, width: 16, heads: 2, sequence: 16, vocab: 259}\n"
        "data: {synthetic: true}\n"
        "train: {steps: 1, micro_batch: 1, threads: 1}\n"
        "memory: {summary: false, calibrate: false}\n"
        "run: {dir: " +
            folder_ / "start" + "}\n");
    ExpectExit(0, RunPlimsoll({"train", folder_ / "start.yaml"}));
    fs::rename(folder_ / "start/model", folder_ / "base");
    Edit("base/config.json", [](json& config) { config["eos_token_id"] = 257; });
    folder_.Write("base/tokenizer.json", tokenizer.dump());
    folder_.Write("base/tokenizer_config.json",
                  R"({"eos_token": "<|im_end|>", "chat_template": "{{ messages }}"})");
    folder_.Write("base/chat_template.jinja", "{{ messages }}");
    fs::create_directory(folder_ / "base/additional_chat_templates");
    folder_.Write("base/additional_chat_templates/tool.jinja", "{{ tools }}");
    folder_.Write("base/generation_config.json",
                  R"({"eos_token_id": [257, 256], "temperature": 0.6})");
    std::string examples;
    for (int i = 0; i < 10; ++i) {
      examples +=
          json{{"prompt", "Question " + std::to_string(i) + "?"}, {"completion", " yes"}}.dump() +
          "\n";
    }
    folder_.Write("examples.jsonl", examples);
  }

  template <typename Change>
  void Edit(const std::string& file, Change change) const {
    json content = json::parse(ReadFile(folder_ / file));
    change(content);
    folder_.Write(file, content.dump());
  }

  Outcome Train(const std::string& run, const Arguments& sets = {}) const {
    folder_.Write("run.yaml", "model: {init_from: " + folder_ / "base" +
                                  ", sequence: 16}\n"
                                  "data: {train: " +
                                  folder_ / "examples.jsonl" + ", tokenizer: " + folder_ / "base" +
                                  "}\n"
                                  "train: {steps: 200, micro_batch: 4, threads: 1}\n"
                                  "optimizer: {lr: 1e-2}\n"
                                  "memory: {summary: false, calibrate: false}\n");
    return RunPlimsoll(
        WithSets({"train", folder_ / "run.yaml", "--set", "run.dir=" + folder_ / run}, sets));
  }
  void Export(Arguments arguments) const {
    arguments.insert(arguments.begin(), "export");
    ExpectExit(0, RunPlimsoll(arguments));
  }
  std::string Answer(const std::string& folder) const {
    const Outcome outcome =
        ExpectExit(0, RunPlimsoll({"generate", folder_ / folder, "--prompt", "Question 3?",
                                   "--tokens", "9", "--temperature", "0"}));
    return outcome.out;
  }
  void ExpectFilesOf(const std::string& model) const {
    EXPECT_THAT(folder_.Names(model),
                ElementsAre("additional_chat_templates", "chat_template.jinja", "config.json",
                            "generation_config.json", "model.safetensors", "tokenizer.json",
                            "tokenizer_config.json"));
    for (const char* file : {"additional_chat_templates/tool.jinja", "chat_template.jinja",
                             "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
      EXPECT_EQ(ReadFile(folder_ / model + "/" + file), ReadFile(folder_ / "base/" + file)) << file;
    }
  }

  const TempFolder folder_;
};

TEST_F(TextEndsCommand, GoAlongAndEndAnswers) {
  const Outcome trained = ExpectExit(0, Train("run", {"save.every=200"}));
  EXPECT_THAT(trained.out, Not(HasSubstr("examples end with")));
  ExpectFilesOf("run/model");
  EXPECT_EQ(Answer("run"), "Question 3? yes\n");
  EXPECT_EQ(Answer("run/model"), "Question 3? yes\n");
  Export({folder_ / "run", "--to", folder_ / "exported"});
  ExpectFilesOf("exported");
  Export({folder_ / "run/snapshots/step-000000200", "--to", folder_ / "of-snapshot"});
  ExpectFilesOf("of-snapshot");
  EXPECT_EQ(Answer("run/snapshots/step-000000200"), "Question 3? yes\n");
  // A folder that was written loads again.
  EXPECT_EQ(Train("again", {"model.init_from=" + folder_ / "exported", "train.steps=1",
                            "data.tokenizer=" + folder_ / "exported"})
                .exit_code,
            0);
  ExpectFilesOf("again/model");
}

TEST_F(TextEndsCommand, GenerationStopsAtEachOfTheFilesEnds) {
  // The model learns to write <eos>; then the folder says other ends.
  Edit("base/tokenizer_config.json", [](json& config) { config["eos_token"] = "<eos>"; });
  ExpectExit(0, Train("run"));
  // The tokenizer's own end is one of the model's from now on.
  const json generation = json::parse(ReadFile(folder_ / "run/model/generation_config.json"));
  EXPECT_EQ(generation.at("eos_token_id"), json({257, 256, 258}));
  EXPECT_EQ(generation.at("temperature"), 0.6);
  const auto set_ends = [&](const json& config, const json& file) {
    Edit("run/model/config.json", [&](json& all) { all["eos_token_id"] = config; });
    Edit("run/model/generation_config.json", [&](json& all) { all["eos_token_id"] = file; });
    Edit("run/model/tokenizer_config.json", [](json& all) { all["eos_token"] = "<|im_end|>"; });
  };
  set_ends(257, nullptr);
  EXPECT_THAT(Answer("run/model"), HasSubstr("yes<eos>"));
  set_ends({257, 258}, nullptr);
  EXPECT_EQ(Answer("run/model"), "Question 3? yes\n");
  set_ends(nullptr, {256, 258});
  EXPECT_EQ(Answer("run/model"), "Question 3? yes\n");
}

// data.end: another token ends examples, answers and what transformers generates.
TEST_F(TextEndsCommand, MayBeChosen) {
  fs::remove(folder_ / "base/generation_config.json");
  ExpectExit(0, Train("run", {"data.end=<eos>", "save.every=200"}));
  EXPECT_EQ(Answer("run"), "Question 3? yes\n");
  EXPECT_EQ(Answer("run/snapshots/step-000000200"), "Question 3? yes\n");
  Export({folder_ / "run", "--to", folder_ / "exported"});
  Export({folder_ / "run/snapshots/step-000000200", "--to", folder_ / "of-snapshot"});
  for (const std::string model : {"run/model", "exported", "of-snapshot"}) {
    EXPECT_EQ(json::parse(folder_.Read(model + "/generation_config.json")).at("eos_token_id"),
              json({257, 258}))
        << model;
    EXPECT_EQ(Answer(model), "Question 3? yes\n");
  }
  const Outcome unknown = ExpectExit(2, Train("unknown", {"data.end=<none>"}));
  EXPECT_THAT(unknown.err, HasSubstr("data.end: '<none>' is no token"));
}

// The tokenizer's files, with which transformers loads it from the adapter's folder.
TEST_F(TextEndsCommand, GoAlongWithAnAdapter) {
  ExpectExit(0, Train("run", {"lora.rank=2", "train.steps=2", "save.every=1"}));
  Export({folder_ / "run", "--to", folder_ / "merged", "--merge"});
  ExpectFilesOf("merged");
  Export({folder_ / "run", "--to", folder_ / "exported"});
  Export({folder_ / "run/snapshots/step-000000001", "--to", folder_ / "of-snapshot"});
  for (const std::string adapter : {"run/adapter", "exported", "of-snapshot"}) {
    EXPECT_THAT(
        folder_.Names(adapter),
        ElementsAre("adapter_config.json", "adapter_model.safetensors", "additional_chat_templates",
                    "chat_template.jinja", "tokenizer.json", "tokenizer_config.json"));
    for (const char* file : {"additional_chat_templates/tool.jinja", "chat_template.jinja",
                             "tokenizer.json", "tokenizer_config.json"}) {
      EXPECT_EQ(ReadFile(folder_ / adapter + "/" + file), ReadFile(folder_ / "base/" + file));
    }
  }
  // Another tokenizer takes the place of these files; bytes have none.
  Export({folder_ / "run", "--to", folder_ / "exported", "--overwrite", "--tokenizer", "byte"});
  EXPECT_THAT(folder_.Names("exported"),
              ElementsAre("adapter_config.json", "adapter_model.safetensors"));
  ExpectExit(0, Train("chats", {"lora.rank=2", "train.steps=1", "data.chat_template=chatml"}));
  EXPECT_THAT(ReadFile(folder_ / "chats/adapter/chat_template.jinja"), HasSubstr("<|im_start|>"));
}

TEST_F(TextEndsCommand, AreRefusedOrToldWhereNoneIsKnown) {
  const auto expect_refused = [&](const std::string& file, const std::string& text,
                                  const Arguments& parts) {
    const std::string before = ReadFile(folder_ / file);
    folder_.Write(file, text);
    const Outcome outcome = ExpectExit(2, Train("refused"));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    folder_.Write(file, before);
  };
  expect_refused("base/tokenizer_config.json", R"({"eos_token": "<none>"})",
                 {"data.tokenizer", "tokenizer_config.json: eos_token", "<none>"});
  expect_refused("base/generation_config.json", R"({"eos_token_id": "none"})",
                 {"generation_config.json: eos_token_id"});
  const Outcome bytes = ExpectExit(0, Train("bytes", {"data.tokenizer=byte", "train.steps=1"}));
  EXPECT_THAT(bytes.out, HasSubstr("examples end with a newline: the tokenizer has no token"));
  // The file belongs to the model, whatever the tokenizer.
  EXPECT_THAT(folder_.Names("bytes/model"),
              ElementsAre("config.json", "generation_config.json", "model.safetensors"));
}

}  // namespace
}  // namespace plimsoll
