// `plimsoll train` stopped by signals, killed at any time, or without room for its files: no
// snapshot is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/trainer/snapshot_run.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A run that takes long enough to be stopped in the middle.
class Stopped : public SnapshotCommand {
 protected:
  static constexpr const char* kLong = "train.steps=100000";

  pid_t Start(const Sets& sets, const Sets& more = {}) const {
    Sets all = {kLong, "train.eval_every=0"};
    all.insert(all.end(), sets.begin(), sets.end());
    return StartPlimsoll(Arguments(all, more), folder_.path());
  }
  int Rows() const {
    std::error_code error;
    if (!fs::exists(run_ + "/metrics.jsonl", error)) return 0;
    const std::string text = ReadFile(run_ + "/metrics.jsonl");
    return static_cast<int>(std::ranges::count(text, '\n'));
  }
  void AwaitRows(int rows) const {
    for (int i = 0; i < 3000 && Rows() < rows; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_GE(Rows(), rows) << folder_.Read("err");
  }
  // Whether a signal was sent to the process and has not reached it.
  static bool IsPending(pid_t child, int signal) {
    const std::string status = ReadFile("/proc/" + std::to_string(child) + "/status");
    const size_t at = status.find("\nShdPnd:");
    return at != status.npos &&
           (std::stoull(status.substr(at + 8), nullptr, 16) >> (signal - 1) & 1);
  }
  static int Wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
};

TEST_F(Stopped, ASignalSavesAndEndsWithItsCode) {
  const std::vector<std::string> whole =
      NumbersOfWhole({kLong, "train.eval_every=0", "train.stop_after=400", "save.on_exit=false"});
  struct Case {
    int signal;
    const char* set;
  };
  int rows = 0;
  for (const Case& c : {Case{SIGTERM, "save.signal=none"}, Case{SIGINT, "save.signal=HUP"},
                        Case{SIGUSR1, "save.signal=USR1"}}) {
    const pid_t child = Start({"save.every=0", c.set}, {"--resume", "auto"});
    AwaitRows(rows + 20);
    kill(child, c.signal);
    const int status = Wait(child);
    ASSERT_TRUE(WIFEXITED(status)) << c.set;
    EXPECT_EQ(WEXITSTATUS(status), 4) << folder_.Read("err");
    // The last line is what to type.
    EXPECT_TRUE(folder_.Read("out").ends_with(
        "stopped by a signal; plimsoll train " + yaml_ + " --set run.dir=" + run_ + " --set " +
        kLong + " --set train.eval_every=0 --set save.every=0 --set " + c.set +
        " --resume auto continues from here\n"))
        << folder_.Read("out");
    rows = Rows();
  }
  ASSERT_LT(rows, 400) << "the machine is faster than this test";
  ExpectExit(0,
             Resume({kLong, "train.eval_every=0", "train.stop_after=400", "save.on_exit=false"}));
  EXPECT_EQ(Numbers(), whole);
}

TEST_F(Stopped, ASecondSignalEndsTheRunAtOnce) {
  // A step that takes so long that both signals arrive during it.
  const pid_t child = Start({"model.width=256", "train.micro_batch=1", "train.accumulate=500"});
  AwaitRows(1);
  kill(child, SIGTERM);
  while (IsPending(child, SIGTERM)) std::this_thread::yield();
  ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the first signal ended it";
  kill(child, SIGINT);
  const int status = Wait(child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST_F(Stopped, WithoutSaveOnExitASignalEndsTheRun) {
  const pid_t child = Start({"save.on_exit=false"});
  AwaitRows(5);
  kill(child, SIGTERM);
  const int status = Wait(child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(Stopped, AfterAKillAPlainStartSaysHowToGoOn) {
  const pid_t child = Start({"save.every=5", "save.on_exit=false", "run.notes=it's mine"});
  const auto complete = [](const std::string& name) { return !name.ends_with(".partial"); };
  for (int i = 0; i < 3000 && std::ranges::none_of(Snapshots(), complete); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  Wait(child);
  const std::string command = "plimsoll train " + yaml_ + " --set run.dir=" + run_ + " --set " +
                              kLong +
                              " --set train.eval_every=0 --set save.every=5 --set "
                              "save.on_exit=false --set 'run.notes=it'\\''s mine' --resume auto";
  ExpectExit(2, Train(), {"or go on with it by " + command});
  EXPECT_THAT(RunPlimsoll({"runs", run_}).out,
              HasSubstr(run_ + ": " + command + " continues from the snapshot after "));
  const json listed = json::parse(RunPlimsoll({"runs", run_, "--json"}).out).at(0);
  EXPECT_EQ(listed.at("resume_command"), command);
  EXPECT_EQ(listed.at("snapshot").get<int>() % 5, 0);
  const Outcome replaced = ExpectExit(0, Train({"run.overwrite=true"}));
  ExpectText(replaced.err,
             {"holds a run that was interrupted", command + " would have gone on with it"});
  // One that came to its end is replaced without a word.
  EXPECT_THAT(Train({"run.overwrite=true"}).err, Not(HasSubstr("interrupted")));
}

// The run is killed again and again at any time: it is resumed each time, and in the end the
// numbers are those of an undisturbed run. A .partial folder of a step after the newest complete
// one proves a kill between a save's first write and its rename.
class Killed : public Stopped, public testing::WithParamInterface<const char*> {};

TEST_P(Killed, AtAnyTimeItGoesOn) {
  const Sets sets = {"save.every=1", "save.keep=3", "model.width=128", "save.on_exit=false",
                     GetParam()};
  int inside = 0, newest = 0;
  constexpr int kKills = 30;
  const auto newest_of = [&](const std::string& suffix) {
    int found = 0;
    for (const std::string& name : Snapshots()) {
      if (name.size() == 14 + suffix.size() && name.ends_with(suffix)) {
        found = std::max(found, std::stoi(name.substr(5)));
      }
    }
    return found;
  };
  for (int number = 0; number < kKills; ++number) {
    const pid_t child = Start(sets, {"--resume", "auto", "--set", "run.overwrite=true"});
    for (int i = 0; i < 30'000 && newest_of("") <= newest; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100'000));
    // Two of three kills are aimed at a save that has begun.
    if (number % 3 != 0) {
      while (newest_of(".partial") <= newest_of("")) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3'000));
    }
    kill(child, SIGKILL);
    const int status = Wait(child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it came to its end before: " << folder_.Read("err");
    inside += newest_of(".partial") > newest_of("");
    ASSERT_GT(newest_of(""), newest) << folder_.Read("err");
    newest = newest_of("");
  }
  std::printf("%s: %d kills, %d of them within a save; %d steps saved\n", GetParam(), kKills,
              inside, newest);
  EXPECT_GE(inside, kKills / 2);
  const std::string stop = "train.stop_after=" + std::to_string(newest + 3);
  const Sets to_the_end = {kLong, "train.eval_every=0", "model.width=128", stop};
  ExpectExit(0, Resume(to_the_end));
  EXPECT_EQ(Numbers(), NumbersOfWhole(to_the_end));
}

INSTANTIATE_TEST_SUITE_P(Ways, Killed, testing::Values("save.async=false", "save.async=true"),
                         [](const auto& info) { return info.index == 0 ? "Waiting" : "Async"; });

// No file may grow beyond this: for a write, this is a full disk.
class NoRoom : public SnapshotCommand, public testing::WithParamInterface<const char*> {
 protected:
  Outcome TrainWithin(rlim_t bytes, const Sets& sets) const {
    rlimit old = {};
    getrlimit(RLIMIT_FSIZE, &old);
    const rlimit limit = {bytes, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Outcome outcome = Resume(sets);
    setrlimit(RLIMIT_FSIZE, &old);
    return outcome;
  }
};

TEST_P(NoRoom, TrainingGoesOnOrStopsAndKeepsWhatWasThere) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer itself writes a larger file as the program starts";
#endif
  const Sets quiet = {"log.report=false", "save.keep=1", GetParam()};
  const auto with = [&](Sets sets) {
    sets.insert(sets.end(), quiet.begin(), quiet.end());
    return sets;
  };
  ExpectExit(0, Train(with({"train.stop_after=5"})));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000005"));

  const Outcome stops = ExpectExit(1, TrainWithin(200'000, with({"save.on_error=stop"})),
                                   {"no snapshot of step 10: ", "; plimsoll train " + yaml_});
  EXPECT_TRUE(stops.err.ends_with(" --resume auto continues from the snapshot after 5 steps\n"))
      << stops.err;
  EXPECT_THAT(stops.err, HasSubstr("rank-00000.safetensors: cannot be written: File too large"));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000005"));

  const Outcome goes_on = ExpectExit(0, TrainWithin(200'000, with({})));
  ExpectText(goes_on.err,
             {"warning: no snapshot of step 10: ", "warning: no snapshot of step 12: "});
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000005"));
  EXPECT_EQ(Numbers().size(), 12u + 5);  // evaluations after 0, 4, 5, 8 and 12 steps
}

INSTANTIATE_TEST_SUITE_P(Ways, NoRoom, testing::Values("save.async=false", "save.async=true"),
                         [](const auto& info) { return info.index == 0 ? "Waiting" : "Async"; });

TEST_F(Stopped, AFolderThatVanishesIsSaidSo) {
  const pid_t child = Start({"save.every=20", "save.on_exit=false", "log.report=false"});
  for (int i = 0; i < 3000 && Snapshots().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::error_code error;
  for (int i = 0; i < 100 && fs::exists(run_ + "/snapshots"); ++i) {
    fs::remove_all(run_ + "/snapshots", error);  // while it may be written to
  }
  const int rows = Rows();
  AwaitRows(rows + 60);
  kill(child, SIGKILL);
  Wait(child);
  EXPECT_THAT(folder_.Read("err"), HasSubstr("warning: no snapshot of step "));
}

}  // namespace
}  // namespace plimsoll
