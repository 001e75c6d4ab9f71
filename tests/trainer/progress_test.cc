// The output of training, on a terminal and elsewhere.
#include "trainer/record/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace plimsoll::trainer {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The text that `print` writes to standard output, redirected to `to`; `from` is the other end.
std::string Printed(int from, int to, const std::function<void()>& print) {
  const int own = dup(STDOUT_FILENO);
  dup2(to, STDOUT_FILENO);
  print();
  dup2(own, STDOUT_FILENO);
  close(own);
  fcntl(from, F_SETFL, O_NONBLOCK);
  std::string text;
  char piece[4096];
  for (ssize_t n = 0; (n = read(from, piece, sizeof(piece))) > 0;) text.append(piece, n);
  close(from);
  close(to);
  return text;
}

std::string OnTerminal(unsigned short columns, const std::function<void()>& print) {
  winsize size = {.ws_row = 40, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int from = -1, to = -1;
  EXPECT_EQ(openpty(&from, &to, nullptr, nullptr, &size), 0);
  return Printed(from, to, print);
}

std::string InPipe(const std::function<void()>& print) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  return Printed(ends[0], ends[1], print);
}

StepReport Report() {
  StepReport report;
  report.step = 990;
  report.objectives = {
      {.loss = 12.34567, .lr = 3e-4, .grad_norm = 1.25, .loss_scale = 65536, .skipped = 3}};
  report.tokens_per_second = 123456;
  report.mfu = 0.4567;
  report.allocator.reserved = int64_t{7} << 30;
  report.resident_bytes = int64_t{8} << 30;
  report.ranks = RankSpread{.fastest_seconds = 0.1,
                            .slowest_seconds = 0.2,
                            .slowest = 3,
                            .least_bytes = 1 << 30,
                            .most_bytes = 1 << 30};
  return report;
}

void Step() { Progress(1000, 0, 10).Step(Report()); }

class ProgressTest : public testing::Test {
 protected:
  ProgressTest() {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
  }
};

TEST_F(ProgressTest, OffATerminalAStepHasAllOfIt) {
  const std::string line = InPipe(Step);
  EXPECT_THAT(line, StartsWith("step  990/1000  loss 12.3457  lr 3.00e-04  grad norm 1.250  loss "
                               "scale 65536, 3 skipped  123k tokens/s  MFU 45.7 %  memory 7.00 GiB "
                               "planned, 8.00 GiB resident  ranks 100 to 200 ms a step (slowest: "
                               "3), 1.00 GiB to 1.00 GiB  "));
  EXPECT_THAT(line, EndsWith(" left\n"));
}

TEST_F(ProgressTest, EpochsAreShownWhereTheRunCountsThem) {
  EXPECT_THAT(InPipe([] { Progress(1000, 0, 10, true, 12.5).Step(Report()); }),
              StartsWith("step  990/1000  loss 12.3457  epoch 79.28/80  lr 3.00e-04"));
}

TEST_F(ProgressTest, SaysWhatDataTakeOfAStep) {
  StepReport report = Report();
  report.step_seconds = 0.0202;
  report.data_seconds = 0.0061;
  EXPECT_THAT(InPipe([&] { Progress(1000, 0, 10).Step(report); }),
              HasSubstr("  123k tokens/s  data 6.1 of 20.2 ms  MFU"));
}

TEST_F(ProgressTest, AStepFitsTheTerminal) {
  for (const unsigned short columns : {40, 60, 80, 110, 132, 300}) {
    setenv("NO_COLOR", "1", 1);
    const std::string line = OnTerminal(columns, Step);
    EXPECT_THAT(line, StartsWith("step  990/1000  loss 12.3457"));
    EXPECT_THAT(line, EndsWith("\r\n"));
    EXPECT_LT(line.size() - 2, columns) << line;
    if (columns >= 60) {
      EXPECT_THAT(line, HasSubstr("123k tokens/s"));
    }
    if (columns >= 80) {
      EXPECT_THAT(line, HasSubstr(" left"));
    }
  }
  EXPECT_EQ(OnTerminal(300, Step).size(), InPipe(Step).size() + 1);
}

TEST_F(ProgressTest, ColoursAreForTerminalsThatWantThem) {
  EXPECT_THAT(OnTerminal(80, Step), StartsWith("\033[1mstep  990/1000  loss 12.3457\033[0m  "));
  EXPECT_THAT(InPipe(Step), Not(HasSubstr("\033")));
  setenv("NO_COLOR", "1", 1);
  EXPECT_THAT(OnTerminal(80, Step), Not(HasSubstr("\033")));
  setenv("NO_COLOR", "", 1);
  EXPECT_THAT(OnTerminal(80, Step), HasSubstr("\033"));
  setenv("TERM", "dumb", 1);
  EXPECT_THAT(OnTerminal(80, Step), Not(HasSubstr("\033")));
  // Nobody looks at mpirun's terminals.
  setenv("TERM", "xterm", 1);
  EXPECT_THAT(OnTerminal(80, [] { Progress(1000, 0, 10, /*live=*/false).Step(Report()); }),
              Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace plimsoll::trainer
