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
  EXPECT_EQ(Shell("$PLIMSOLL plan nope.yaml 2>/dev/full").exit_code, 2);
  EXPECT_EQ(Shell("$PLIMSOLL plan --nope 2>/dev/full").exit_code, 2);
  // The command warns that this has no effect.
  const Outcome plan = Shell("$PLIMSOLL plan m.yaml --set lora.alpha=7 2>/dev/full");
  EXPECT_EQ(plan.exit_code, 0);
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
  const Outcome outcome =
      Shell("$PLIMSOLL train m.yaml --set train.steps=3 2>&1 | true; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(outcome.exit_code, 0);
  ExpectWholeRun();
}

TEST_F(Streams, AnswersThatCannotBeWrittenFail) {
  ASSERT_EQ(Shell("$PLIMSOLL train m.yaml").exit_code, 0);
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
  const Outcome unknown = Shell("$PLIMSOLL help plam");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("plam: unknown command"));
}

TEST_F(Streams, AnswersEndQuietlyWhenTheirReaderLeaves) {
  const Outcome outcome = Shell(
      "mkfifo left; true <left & exec 4>left; wait $!; exec $PLIMSOLL config --reference >&4");
  EXPECT_EQ(outcome.exit_code, 128 + SIGPIPE);
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(Streams, PagesAndTablesGoWhereTheyAreSent) {
  ASSERT_EQ(Shell("$PLIMSOLL train m.yaml").exit_code, 0);
  for (const char* command : {"plan m.yaml --html", "report r --html", "report r --csv"}) {
    const std::string call = std::string("$PLIMSOLL ") + command + " ";
    EXPECT_EQ(Shell(call + "link; rm -f page").exit_code, 0);
    ASSERT_EQ(Shell("ln -sf page link; " + call + "link && test -L link -a -s page").exit_code, 0);
    ASSERT_EQ(Shell(call + "/dev/null && test -c /dev/null").exit_code, 0);
    EXPECT_EQ(Shell(call + "/dev/full").exit_code, 2);
    const std::string page = folder_.Read("page");
    EXPECT_THAT(Shell(call + "/dev/stdout").out, HasSubstr(page.substr(0, 40)));
    EXPECT_THAT(Shell(call + "/dev/stdout > all; cat all").out, HasSubstr(page.substr(0, 40)));
    EXPECT_EQ(Shell(call + ">(cat >piped) >/dev/null; wait $!; cat piped").out.substr(0, 40),
              page.substr(0, 40))
        << command;
  }
}

TEST_F(Streams, InputsAreNotWrittenOver) {
  ASSERT_EQ(Shell("$PLIMSOLL train m.yaml").exit_code, 0);
  folder_.Write("on.yaml", "extends: m.yaml\n");
  ASSERT_EQ(Shell("ln on.yaml hard; ln -s m.yaml soft").exit_code, 0);
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
    EXPECT_THAT(outcome.exit_code, AnyOf(1, 2)) << limit;  // before the first step, or in it
    EXPECT_THAT(outcome.err, HasSubstr("Too many open files")) << limit;
    EXPECT_THAT(outcome.err, Not(HasSubstr("internal error"))) << limit;
  }
}

TEST_F(Streams, AModelThatDoesNotFitIsNoMistakeOfTheUser) {
  // For a write this is a full disk: metrics fit, the model doesn't.
  const Outcome outcome = Shell("ulimit -f 1000; $PLIMSOLL train m.yaml --set model.vocab=30000");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("r/model/"));
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
  ASSERT_EQ(Shell("$PLIMSOLL train m.yaml").exit_code, 0);
  for (const std::string file : {"metrics.jsonl", "run.json", "summary.json"}) {
    SCOPED_TRACE(file);
    ASSERT_EQ(Shell("cp -r r all; rm all/" + file + "; mkfifo all/" + file).exit_code, 0);
    for (const std::string command :
         {"runs .", "report all", "inspect all",
          "train m.yaml --set run.dir=all run.overwrite=true", "train m.yaml --resume all"}) {
      const Outcome outcome = Shell("timeout 60 $PLIMSOLL " + command);
      EXPECT_NE(outcome.exit_code, 124) << command;
      if (!command.starts_with("train m.yaml --set")) continue;
      EXPECT_EQ(outcome.exit_code, 2);
      EXPECT_THAT(outcome.err, HasSubstr("all/" + file + "' is a pipe or a device"));
    }
    ASSERT_EQ(Shell("rm -rf all").exit_code, 0);
  }
}

TEST_F(Streams, RunFilesMayBePipes) {
  EXPECT_EQ(Shell("$PLIMSOLL plan <(sleep 0.3; cat m.yaml)").exit_code, 0);
  EXPECT_EQ(Shell("cat m.yaml | $PLIMSOLL plan /dev/stdin").exit_code, 0);
  EXPECT_EQ(Shell("mkfifo pipe; cat m.yaml >pipe & $PLIMSOLL plan pipe").exit_code, 0);
  // A pipe without a writer.
  const Outcome plan = Shell("mkfifo lonely; timeout 60 $PLIMSOLL plan lonely");
  EXPECT_EQ(plan.exit_code, 2);
  EXPECT_THAT(plan.err, HasSubstr("lonely: is a pipe that nothing writes to"));
  const Outcome train = Shell(
      "timeout 60 $PLIMSOLL train m.yaml --set data.synthetic=false --set data.train=lonely "
      "--set data.format=text --set data.tokenizer=byte");
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_THAT(train.err, HasSubstr("lonely: is not a regular file"));
}

}  // namespace
}  // namespace plimsoll
