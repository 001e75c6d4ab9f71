// Commands whose output cannot be written, is not read, or has no place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 1, width: 16, heads: 2, sequence: 8, vocab: 256}\n"
              "data: {synthetic: true, tokenizer: byte}\n"
              "train: {steps: 3, micro_batch: 2, accumulate: 2, threads: 1}\n"
              "memory: {calibrate: false}\n"
              "save: {every: 3}\n"
              "run: {dir: " +
                  run_ + ", overwrite: true}\n");
  }

  // Runs `command` with the folder's files: $PLIMSOLL, m.yaml and r.
  Outcome Shell(const std::string& command) const {
    return RunShell("PLIMSOLL=$PWD/$PLIMSOLL; cd " + folder_.path() + "; " + command);
  }

  // Every line is a JSON object, three of them for steps.
  void ExpectWholeRun() const {
    std::istringstream lines(ReadFile(run_ + "/metrics.jsonl"));
    int steps = 0;
    for (std::string line; std::getline(lines, line);) {
      ASSERT_TRUE(nlohmann::json::accept(line)) << line;
      steps += nlohmann::json::parse(line).contains("lr");
    }
    EXPECT_EQ(steps, 3);
    EXPECT_TRUE(std::filesystem::exists(run_ + "/model/config.json"));
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "m.yaml";
  const std::string run_ = folder_ / "r";
};

TEST_F(Streams, MessagesThatCannotBeWrittenChangeNothing) {
  ExpectExit(2, Shell("$PLIMSOLL plan nope.yaml 2>/dev/full"));
  ExpectExit(2, Shell("$PLIMSOLL plan --nope 2>/dev/full"));
  // The command warns that this has no effect.
  const Outcome plan = ExpectExit(0, Shell("$PLIMSOLL plan m.yaml --set lora.alpha=7 2>/dev/full"));
  EXPECT_THAT(plan.out, HasSubstr("arena"));
}

TEST_F(Streams, TrainingGoesOnWithoutItsOutput) {
  for (const char* redirection : {">/dev/full 2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-"}) {
    EXPECT_EQ(Shell(std::string("$PLIMSOLL train m.yaml ") + redirection).exit_code, 0)
        << redirection;
    ExpectWholeRun();
  }
}

TEST_F(Streams, TrainingGoesOnWhenItsReaderLeaves) {
  ExpectExit(
      0, Shell("$PLIMSOLL train m.yaml --set train.steps=3 2>&1 | true; exit ${PIPESTATUS[0]}"));
  ExpectWholeRun();
}

TEST_F(Streams, AnswersThatCannotBeWrittenFail) {
  ExpectExit(0, Shell("$PLIMSOLL train m.yaml"));
  for (const char* command :
       {"plan m.yaml", "plan m.yaml --json", "config m.yaml", "config --reference", "inspect r",
        "generate r --tokens 3", "eval r --json", "report r", "report r --json", "info", "--help",
        "--version", "plan --help", "plan m.yaml --ranks 2"}) {
    for (const char* redirection : {">/dev/full", ">&-"}) {
      const Outcome outcome = Shell(std::string("$PLIMSOLL ") + command + " " + redirection);
      EXPECT_EQ(outcome.exit_code, 1) << command << redirection;
      EXPECT_THAT(outcome.err, HasSubstr("standard output: cannot be written: ")) << command;
    }
  }
}

TEST_F(Streams, HelpAndVersionAreWordsToo) {
  const auto out = [&](const char* arguments) {
    const Outcome outcome = Shell(std::string("$PLIMSOLL ") + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(out("help"), out("--help"));
  EXPECT_EQ(out("help plan"), out("plan --help"));
  EXPECT_EQ(out("help data tokenize"), out("data tokenize --help"));
  EXPECT_EQ(out("version"), out("--version"));
  EXPECT_THAT(out("help"), HasSubstr("  version "));
  const Outcome unknown = ExpectExit(2, Shell("$PLIMSOLL help plam"));
  EXPECT_THAT(unknown.err, HasSubstr("plam: unknown command"));
}

TEST_F(Streams, AnswersEndQuietlyWhenTheirReaderLeaves) {
  const Outcome outcome = Shell(
      "mkfifo left; true <left & exec 4>left; wait $!; $PLIMSOLL config --reference >&4; exit $?");
  EXPECT_EQ(outcome.exit_code, 128 + SIGPIPE);
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(Streams, PagesAndTablesGoWhereTheyAreSent) {
  ExpectExit(0, Shell("$PLIMSOLL train m.yaml"));
  for (const char* command : {"plan m.yaml --html", "report r --html", "report r --csv"}) {
    const std::string call = std::string("$PLIMSOLL ") + command + " ";
    ExpectExit(0, Shell(call + "link; rm -f page"));
    ExpectExit(0, Shell("ln -sf page link; " + call + "link && test -L link -a -s page"));
    ExpectExit(0, Shell(call + "/dev/null && test -c /dev/null"));
    ExpectExit(2, Shell(call + "/dev/full"));
    const std::string page = folder_.Read("page");
    EXPECT_THAT(Shell(call + "/dev/stdout").out, HasSubstr(page.substr(0, 40)));
    EXPECT_THAT(Shell(call + "/dev/stdout > all; cat all").out, HasSubstr(page.substr(0, 40)));
    EXPECT_EQ(Shell(call + ">(cat >piped) >/dev/null; wait $!; cat piped").out.substr(0, 40),
              page.substr(0, 40))
        << command;
  }
}

TEST_F(Streams, InputsAreNotWrittenOver) {
  ExpectExit(0, Shell("$PLIMSOLL train m.yaml"));
  folder_.Write("on.yaml", "extends: m.yaml\n");
  ExpectExit(0, Shell("ln on.yaml hard; ln -s m.yaml soft"));
  const std::string before = ReadFile(yaml_);
  for (const char* command :
       {"plan on.yaml --html on.yaml", "plan on.yaml --html ./m.yaml", "plan on.yaml --html hard",
        "plan on.yaml --html soft", "report r --html r/metrics.jsonl",
        "report r --csv r/config.yaml", "report r --csv r/summary.json"}) {
    const Outcome outcome = Shell(std::string("$PLIMSOLL ") + command);
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("is one of the files that are read")) << command;
  }
  EXPECT_EQ(ReadFile(yaml_), before);
  EXPECT_EQ(folder_.Read("on.yaml"), "extends: m.yaml\n");
  ExpectWholeRun();
}

TEST_F(Streams, TooFewDescriptorsAreSaid) {
  // All reports at once: each keeps a file open.
  for (int limit = 4; limit < 16; ++limit) {
    const Outcome outcome = Shell("ulimit -n " + std::to_string(limit) +
                                  "; $PLIMSOLL train m.yaml --set log.csv=true --set "
                                  "log.tensorboard=true --set run.dir=few");
    constexpr int kNotLoaded = 127;  // not even its libraries
    if (outcome.exit_code == 0 || outcome.exit_code == kNotLoaded) continue;
    // UBSan opens a pipe to look at an object, and takes a lack of descriptors for a wrong object.
    if (outcome.err.find("object has invalid vptr") != std::string::npos) continue;
    EXPECT_THAT(outcome.exit_code, AnyOf(1, 2)) << limit;  // before the first step, or in it
    EXPECT_THAT(outcome.err, HasSubstr("Too many open files")) << limit;
    EXPECT_THAT(outcome.err, Not(HasSubstr("internal error"))) << limit;
  }
}

TEST_F(Streams, AModelThatDoesNotFitIsNoMistakeOfTheUser) {
  // For a write this is a full disk: metrics fit, the model doesn't.
  ExpectExit(1, Shell("ulimit -f 1000; $PLIMSOLL train m.yaml --set model.vocab=30000"),
             {"r/model/"});
}

TEST_F(Streams, LongValuesAreNotQuotedWhole) {
  const std::string value(5000, 'x');
  for (const std::string& command :
       {"plan m.yaml --ranks " + value, "plan m.yaml --sweep " + value, "plan m.yaml --" + value,
        "plan m.yaml --device " + value, "plan m.yaml --max " + value, value,
        "plan m.yaml --set amp.dtype=" + value, "plan m.yaml --set " + value + "=1",
        "plan " + value, "eval r --dtype " + value, "runs " + value}) {
    const Outcome outcome = Shell("$PLIMSOLL " + command);
    EXPECT_NE(outcome.exit_code, 0) << command;
    EXPECT_LT(outcome.err.size(), 700u) << outcome.err;
  }
}

// What would wait for ever is neither read nor written.
TEST_F(Streams, PipesAmongARunsFilesAreNoFiles) {
  ExpectExit(0, Shell("$PLIMSOLL train m.yaml"));
  for (const std::string file : {"metrics.jsonl", "run.json", "summary.json"}) {
    SCOPED_TRACE(file);
    ExpectExit(0, Shell("cp -r r all; rm all/" + file + "; mkfifo all/" + file));
    for (const std::string command :
         {"runs .", "report all", "inspect all",
          "train m.yaml --set run.dir=all run.overwrite=true", "train m.yaml --resume all"}) {
      const Outcome outcome = Shell("timeout 60 $PLIMSOLL " + command);
      EXPECT_NE(outcome.exit_code, 124) << command;
      if (!command.starts_with("train m.yaml --set")) continue;
      EXPECT_EQ(outcome.exit_code, 2);
      EXPECT_THAT(outcome.err, HasSubstr("all/" + file + "' is a pipe or a device"));
    }
    ExpectExit(0, Shell("rm -rf all"));
  }
}

TEST_F(Streams, RunFilesMayBePipes) {
  ExpectExit(0, Shell("$PLIMSOLL plan <(sleep 0.3; cat m.yaml)"));
  ExpectExit(0, Shell("cat m.yaml | $PLIMSOLL plan /dev/stdin"));
  ExpectExit(0, Shell("mkfifo pipe; cat m.yaml >pipe & $PLIMSOLL plan pipe"));
  // A pipe without a writer.
  ExpectExit(2, Shell("mkfifo lonely; timeout 60 $PLIMSOLL plan lonely"),
             {"lonely: is a pipe that nothing writes to"});
  ExpectExit(
      2,
      Shell("timeout 60 $PLIMSOLL train m.yaml --set data.synthetic=false --set data.train=lonely "
            "--set data.format=text --set data.tokenizer=byte"),
      {"lonely: is not a regular file"});
}

}  // namespace
}  // namespace plimsoll
