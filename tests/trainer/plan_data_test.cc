// What `plan` says of a run's data: the errors of `train`, and no more than a warning where the
// data are on another machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/image_folders.h"
#include "tests/support/needs_jinja2.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kGpt2 = "family: gpt2, layers: 1, width: 16, heads: 2, sequence: 16, vocab: 256";
const std::string kResNet = "family: resnet, depth: 8, image_size: 8, channels: 1";
const std::string kUnet =
    "family: unet, image_depth: 8, image_height: 8, image_width: 8, levels: 2, features: 4, "
    "convolutions: 1";

class PlanData : public testing::Test {
 protected:
  void Configure(const std::string& model, const std::string& data,
                 const std::string& train = "steps: 2") const {
    WriteFile(yaml_, "model: {" + model + "}\ndata: {" + data + "}\ntrain: {" + train +
                         ", micro_batch: 2, threads: 1, eval_every: 0}\noptimizer: {lr: 1e-2}\n"
                         "memory: {summary: false, calibrate: false}\nrun: {dir: " +
                         folder_ / "run" + "}\n");
  }
  Outcome Run(const std::string& command, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {command, yaml_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunPlimsoll(arguments);
  }
  // The same line of both.
  void ExpectRefused(const std::vector<std::string>& parts) const {
    const Outcome planned = Run("plan");
    ExpectRefusal(planned, parts);
    EXPECT_EQ(planned.err, ExpectExit(2, Run("train")).err);
  }
  // Training is refused with an error that the plan warns of.
  void ExpectWarning(const std::string& part, const std::vector<std::string>& more = {}) const {
    ExpectExit(2, Run("train"), {part});
    const Outcome planned =
        ExpectExit(0, Run("plan", more), {"warning: ", part, "train would refuse this"});
    EXPECT_THAT(planned.out, HasSubstr("parameters"));
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
};

TEST_F(PlanData, DataOfAnotherMachineAreAWarning) {
  Configure(kGpt2, "train: " + folder_ / "gone.txt" + ", tokenizer: byte");
  ExpectWarning("run.yaml:2: data.train: no file matches");
  ExpectWarning("run.yaml:2: data.train: no file matches", {"--device", "h200"});
  Configure(kResNet + ", classes: 4", "source: images, folder: " + folder_ / "gone");
  ExpectWarning("run.yaml:2: data.folder: ");
  Configure(kUnet + ", classes: 2", "source: volumes, folder: " + folder_ / "gone");
  ExpectWarning("run.yaml:2: data.folder: ");
  Configure(kResNet + ", classes: 4", "source: images, folder: " + folder_ / "gone", "epochs: 1");
  ExpectWarning("run.yaml:2: data.folder: ");
  EXPECT_THAT(Run("plan").err, HasSubstr("the steps that the epochs take stay open"));
  // Without the number of classes there is no model.
  Configure(kResNet, "source: images, folder: " + folder_ / "gone");
  ExpectRefused({"run.yaml:2: data.folder: ", "without them give model.classes"});
}

TEST_F(PlanData, TextsFit) {
  folder_.Write("short.txt", "too short");
  Configure(kGpt2, "train: " + folder_ / "short.txt" + ", tokenizer: byte");
  ExpectRefused({"run.yaml:2: data.train: 9 tokens", "train.micro_batch"});
  folder_.Write("zeros.txt", std::string(1000, '\0'));
  Configure(kGpt2, "train: " + folder_ / "zeros.txt" + ", tokenizer: byte");
  ExpectRefused({"zeros.txt: ", "no text"});
  folder_.WriteAs<uint16_t>("a.bin", std::vector<uint16_t>(1000, 300));
  Configure(kGpt2, "train: " + folder_ / "a.bin");
  ExpectRefused({"a.bin: token 0 is id 300, beyond the vocabulary of 256"});
  folder_.Write("labels.jsonl",
                "{\"text\": \"x\", \"label\": 0}\n{\"text\": \"x\", \"label\": 2}\n");
  folder_.Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nx\n");
  Configure(
      "family: bert, task: classification, classes: 2, layers: 1, width: 8, heads: 2, "
      "sequence: 16, vocab: 6",
      "source: labelled_text, train: " + folder_ / "labels.jsonl" +
          ", tokenizer: " + folder_ / "vocab.txt");
  ExpectRefused({"labels.jsonl:2: label '2' is class 2, but the model has 2"});
}

// Large text is not tokenised, and its first example is read.
TEST_F(PlanData, LargeTextsAreLookedAt) {
  const std::string line = "{\"text\": \"" + std::string(1000, 'x') + "\"}\n";
  std::string lines;
  while (lines.size() < (9 << 20)) lines += line;
  Configure(kGpt2, "train: " + folder_ / "a.jsonl" + ", tokenizer: byte");
  folder_.Write("a.jsonl", "{\"txt\": 1}\n" + lines);
  ExpectRefused({"a.jsonl:1: ", "completion"});
  folder_.Write("a.jsonl", lines + "{\"txt\": 1}\n");
  ExpectExit(2, Run("train"));
  const Outcome planned = ExpectExit(0, Run("plan"));
  EXPECT_EQ(planned.err, "");
  folder_.Write("a.bin", "x" + lines);
  Configure(kGpt2, "train: " + folder_ / "a.bin");
  ExpectRefused({"a.bin: "});
}

TEST_F(PlanData, ImagesFit) {
  data::WriteIdxFolder(folder_, 40, 10);
  const std::string images = "source: images, folder: " + folder_.path();
  Configure(kResNet + ", classes: 10", images);
  ExpectRefused({"run.yaml:2: data.source: ", "3 × 4 × 1"});
  Configure(kResNet + ", classes: 4", images + ", pad_to: 8");
  ExpectRefused({"train-labels-idx1-ubyte: image 4 has label 4", "raise model.classes"});
  for (const char* name : {"cat", "dog", "cow"}) {
    std::filesystem::create_directories(folder_ / "animals/" + name);
    folder_.Write(std::string("animals/") + name + "/1.png", "no image");
  }
  const std::string animals = "source: images, folder: " + folder_ / "animals";
  Configure(kResNet + ", classes: 2", animals);
  ExpectRefused({"run.yaml:2: data.folder: has 3 folders of classes", "set model.classes: 3"});
  Configure(kResNet, animals);
  ExpectRefused({"run.yaml:2: data.source: ", "/1.png: "});
  Configure(kResNet + ", classes: 3", animals, "steps: 2, early_stop: 0");
  std::filesystem::create_directories(folder_ / "animals/dev");
  ExpectRefused({"/animals/dev: is called as images that are held out"});
}

TEST_F(PlanData, VolumesFit) {
  const std::string set = folder_ / "set";
  ASSERT_EQ(RunPlimsoll({"data", "volumes", set, "--train", "3", "--test", "1", "--size", "16",
                         "--classes", "3"})
                .exit_code,
            0);
  const std::string volumes = "source: volumes, folder: " + set;
  Configure(kUnet + ", channels: 2, classes: 3", volumes);
  ExpectRefused({"run.yaml:2: data.folder: volumes have 1 channel", "set model.channels: 1"});
  Configure(
      "family: unet, image_depth: 32, image_height: 32, image_width: 32, levels: 2, features: 4, "
      "convolutions: 1, classes: 3",
      volumes);
  ExpectRefused({"run.yaml:2: data.folder: ", "16 × 16 × 16 voxels", "data.pad: true"});
  Configure(kUnet + ", classes: 2", volumes);
  ExpectRefused({"has label 2", "2 classes"});
}

// Where threads may prepare the data, their speed is next to the step's, in JSON as well.
TEST_F(PlanData, SpeedIsNextToTheStep) {
  data::WriteIdxFolder(folder_, 40, 10);
  const std::string images = "source: images, folder: " + folder_.path() + ", pad_to: 8";
  const std::vector<std::string> timed = {"--set", "memory.calibrate=true"};
  Configure(kResNet + ", classes: 10", images);
  const Outcome plain = ExpectExit(0, Run("plan"));
  EXPECT_THAT(plain.out, Not(HasSubstr("data: ")));
  const Outcome planned = ExpectExit(0, Run("plan", timed));
  EXPECT_THAT(planned.out,
              testing::ContainsRegex("predicted step: .*\ndata: [0-9.kM]+ samples/s a thread, "
                                     "between steps \\(data.workers: 0\\); the step takes "));
  std::vector<std::string> more = timed;
  more.insert(more.end(), {"--set", "data.workers=2", "--json"});
  const nlohmann::json json = nlohmann::json::parse(ExpectExit(0, Run("plan", more)).out);
  EXPECT_EQ(json.at("data").at("workers"), 2);
  EXPECT_GT(json.at("data").at("thread_samples_per_s"), 0);
  EXPECT_GT(json.at("data").at("step_samples_per_s"), 0);
  EXPECT_FALSE(nlohmann::json::parse(Run("plan", {"--json"}).out).contains("data"));
  // A plan for another machine, and of other questions.
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--device", "h200"}, {"--sweep", "2"}, {"--parameters"}}) {
    more = timed;
    more.insert(more.end(), other.begin(), other.end());
    EXPECT_THAT(ExpectExit(0, Run("plan", more)).out, Not(HasSubstr("data: "))) << other[0];
  }
  // Data that cost nothing, and that are not here.
  Configure(kGpt2, "synthetic: true");
  EXPECT_THAT(ExpectExit(0, Run("plan", timed)).out, Not(HasSubstr("data: ")));
  Configure(kResNet + ", classes: 10", "source: images, folder: " + folder_ / "gone");
  EXPECT_THAT(ExpectExit(0, Run("plan", timed)).out, Not(HasSubstr("data: ")));
}

// `config`, `plan` and `train` agree, and the run records it.
TEST_F(PlanData, ClassesFollow) {
  data::WriteIdxFolder(folder_, 40, 10);
  const std::string animals = folder_ / "animals";
  ExpectExit(0, RunPlimsoll({"data", "images", animals, "--from", folder_.path(), "--format", "png",
                             "--classes", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}));
  for (const char* name : {"d", "e", "f", "g", "h", "i", "j"}) {
    std::filesystem::remove_all(animals + "/train/" + name);
    std::filesystem::remove_all(animals + "/test/" + name);
  }
  Configure(kResNet, "source: images, folder: " + animals);
  EXPECT_THAT(Run("config").out, HasSubstr("\n  classes: 3\n"));
  const Outcome planned = ExpectExit(0, Run("plan", {"--json"}));
  const Outcome trained = ExpectExit(0, Run("train"));
  EXPECT_THAT(trained.out, HasSubstr("in 3 classes (a, b, c)"));
  EXPECT_THAT(folder_.Read("run/config.yaml"), HasSubstr("\n  classes: 3\n"));
  Configure(kResNet + ", classes: 3", "source: images, folder: " + animals);
  const auto without_keys = [](const Outcome& outcome) {
    nlohmann::json plan = nlohmann::json::parse(outcome.out);
    plan.erase("config");
    plan.erase("given");
    return plan;
  };
  EXPECT_EQ(without_keys(Run("plan", {"--json"})), without_keys(planned));
  // The head of weights is kept; a warning says what another takes.
  Configure("init_from: " + folder_ / "run/model", "source: images, folder: " + animals);
  EXPECT_THAT(Run("plan").err, Not(HasSubstr("warning")));
  std::filesystem::remove_all(animals + "/train/c");
  std::filesystem::remove_all(animals + "/test/c");
  const Outcome fewer = ExpectExit(0, Run("plan"));
  EXPECT_THAT(fewer.err,
              HasSubstr("model.init_from: its classifier distinguishes 3 classes, and the "
                        "data have 2; model.classes: 2 begins one for these afresh"));
}

// A template that takes long is waited for once.
TEST_F(PlanData, ChatsThatCannotBeReadAreReadOnce) {
  NEEDS_JINJA2();
  const std::string chats = folder_.Write(
      "chats.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
      "\n");
  const std::string refusing = folder_.Write("t.jinja", "{{ raise_exception('too many') }}");
  Configure(kGpt2, "train: " + chats + ", tokenizer: byte, chat_template: " + refusing);
  EXPECT_THAT(
      Run("plan", {"--set", "data.train=" + folder_.Write("text.txt", std::string(99, 'x'))}).err,
      HasSubstr(yaml_ + ":2: data.chat_template: has no effect: no file of data.train"));
  // A python3 that counts its starts.
  const std::string python =
      folder_.Write("python3", "#!/bin/sh\necho started >> " + folder_ / "starts" +
                                   "\nexec \"$PYTHON\" \"$@\"\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  for (const char* command : {"plan", "train"}) {
    std::filesystem::remove(folder_ / "starts");
    ExpectRefusal(
        RunShell("export PYTHON=$(command -v python3) PATH=" + folder_.path() +
                 ":$PATH\nexec $PLIMSOLL " + command + " " + yaml_ + " --set train.micro_batch=4"),
        {"chats.jsonl:1", "t.jinja", "too many"});
    EXPECT_EQ(folder_.Read("starts"), "started\n") << command;
  }
}

}  // namespace
}  // namespace plimsoll
