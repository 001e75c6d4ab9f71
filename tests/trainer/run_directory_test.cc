#include "trainer/record/run_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "trainer/record/run_metrics.h"

namespace plimsoll::trainer {
namespace {

class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() { config_.run.dir = folder_.path(); }

  const TempFolder folder_;
  config::RunConfig config_;
};

// For a write, a limit on file sizes looks like a full disk.
TEST_F(RunDirectoryTest, ALineThatDoesNotFitLeavesNothingBehind) {
  signal(SIGXFSZ, SIG_IGN);
  RunDirectory directory(config_, true);
  directory.Begin();
  directory.AppendMetrics("{\"step\":0}");
  rlimit old = {};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limit = {17, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  ExpectUserError([&] { directory.AppendMetrics("{\"step\":1}"); }, {"metrics.jsonl"});
  EXPECT_EQ(folder_.Read("metrics.jsonl"), "{\"step\":0}\n");
  setrlimit(RLIMIT_FSIZE, &old);
  directory.AppendMetrics("{\"step\":2}");
  EXPECT_EQ(folder_.Read("metrics.jsonl"), "{\"step\":0}\n{\"step\":2}\n");
}

TEST_F(RunDirectoryTest, GoesOnBehindTheLinesThatStay) {
  folder_.Write("metrics.jsonl",
                "{\"step\":0,\"eval_loss\":3}\n{\"step\":0,\"loss\":3}\n{\"step\":1,\"loss\":2}\n"
                "{\"step\":2,\"eval_loss\":2}\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"lo");
  const std::string metrics = folder_ / "metrics.jsonl";
  // After two steps, with and without the evaluation after the second.
  EXPECT_EQ(LinesUntil(metrics, 2, 0, 0).size(), 3u);
  const std::vector<std::string> lines = LinesUntil(metrics, 2, 2, 0);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[3], "{\"step\":2,\"eval_loss\":2}");
  EXPECT_EQ(LinesUntil(folder_ / "none", 2, 2, 0).size(), 0u);

  // Rollbacks are selected by their number: a later one may go back to the same step.
  folder_.Write("rollbacks",
                "{\"step\":0,\"loss\":3}\n{\"step\":1,\"rollback\":1}\n"
                "{\"step\":1,\"rollback\":2}\n{\"step\":1,\"loss\":2}\n");
  EXPECT_EQ(LinesUntil(folder_ / "rollbacks", 1, 0, 0).size(), 1u);
  EXPECT_EQ(LinesUntil(folder_ / "rollbacks", 1, 0, 1).size(), 2u);
  EXPECT_EQ(LinesUntil(folder_ / "rollbacks", 2, 0, 2).size(), 4u);

  RunDirectory directory(config_, true);
  directory.Continue(lines, {});
  directory.AppendMetrics("{\"step\":2,\"loss\":0}");
  EXPECT_EQ(LinesUntil(metrics, 9, 9, 0).size(), 5u);
}

TEST_F(RunDirectoryTest, ALineThatIsNoRowIsNamed) {
  const std::string metrics = folder_ / "metrics.jsonl", good = "{\"step\":0,\"loss\":3}\n";
  struct Case {
    const char* line;
    const char* problem;
  };
  for (const Case& c :
       {Case{"[1]", "not an object"}, Case{"garbage \x01", "not JSON"}, Case{"", "not JSON"},
        Case{"{\"loss\":3}", "no step"}, Case{"{\"step\":\"1\"}", "no step"},
        Case{"{\"step\":1,\"loss\":\"3\"}", "loss is no number"},
        Case{"{\"step\":1,\"rank_bytes\":[1]}", "rank_bytes is no pair"},
        Case{"{\"step\":1,\"diverged\":[]}", "diverged is no text"}}) {
    folder_.Write("metrics.jsonl", good + c.line + "\n" + good);
    for (const std::function<void()>& read :
         {std::function<void()>([&] { LinesUntil(metrics, 1, 1, 0); }),
          std::function<void()>([&] { ReadMetrics(metrics); })}) {
      ExpectUserError(read, {metrics + ":2: ", c.problem, "remove that line"});
    }
  }
  // Members that another version of the program adds are ignored.
  const std::string more = "{\"step\":1,\"loss\":2,\"more\":{\"a\":[]},\"three\":[1,2,3]}";
  folder_.Write("metrics.jsonl", good + more + "\n");
  EXPECT_EQ(LinesUntil(metrics, 2, 0, 0).back(), more);
  EXPECT_EQ(ReadMetrics(metrics).loss, (std::vector<double>{3, 2}));
}

TEST_F(RunDirectoryTest, TimesOfDataAreReadBackWithoutTheFirstSteps) {
  folder_.Write("metrics.jsonl",
                "{\"step\":0,\"loss\":3,\"step_ms\":9,\"data_ms\":7}\n"
                "{\"step\":1,\"loss\":2,\"step_ms\":5,\"data_ms\":1.5}\n");
  const RunMetrics metrics = ReadMetrics(folder_ / "metrics.jsonl");
  EXPECT_EQ(MeasuredDataTimes(metrics, 1), std::vector<double>{1.5});
  EXPECT_EQ(MeasuredDataTimes(metrics, 3), (std::vector<double>{7, 1.5}));
  EXPECT_TRUE(MeasuredDataTimes({}, 1).empty());
}

TEST_F(RunDirectoryTest, ARunIsNeitherReplacedNorContinuedUnasked) {
  folder_.Write("metrics.jsonl", "");
  const RunDirectory directory(config_, true);
  ExpectUserError([&] { directory.RequireReplaceable(config_); },
                  {"run.dir", "without a snapshot to go on from; ", "run.overwrite"});
  std::filesystem::create_directories(directory.File("snapshots/step-000000005"));
  ExpectUserError([&] { directory.RequireReplaceable(config_); }, {"run.dir", "--resume auto"});
  config_.run.overwrite = true;
  directory.RequireReplaceable(config_);
}

}  // namespace
}  // namespace plimsoll::trainer
