// A program that saves endlessly is killed again and again, at random times and at the start of
// each phase of a save; after each kill the newest snapshot that it completed, or a newer one,
// exists and is undamaged.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "tests/snapshots/sample.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::snapshots {
namespace {

constexpr int64_t kScale = 4096;  // 0.5 MB
constexpr int kKills = 150;

enum Phase : int { kIdle, kShards, kManifest, kPublish, kPrune, kPhases };

// What the child shares with its parent; it outlives the child.
struct Log {
  volatile int phase = kIdle;
  volatile int64_t published = 0;  // the step of the last Publish() that returned
  volatile int stop_at = kIdle;    // the child waits for its kill where it enters this phase

  void Enter(Phase entered) {
    phase = entered;
    while (entered != kIdle && entered == stop_at) pause();
  }
};

[[noreturn]] void SaveWithoutEnd(const Folder& folder, int64_t step, Log& log) {
  folder.Recover();
  for (;; ++step) {
    // Every third save replaces an existing snapshot.
    const int64_t saved = step % 3 == 0 ? step - 1 : step;
    log.Enter(kShards);
    folder.Begin(saved);
    Manifest manifest;
    WriteShards(folder.PartialOf(saved), saved, kScale, manifest);
    log.Enter(kManifest);
    folder.Finish(manifest);
    log.Enter(kPublish);
    folder.Publish(saved);
    log.published = saved;
    log.Enter(kPrune);
    folder.Prune(saved, {.newest = 2});
    log.Enter(kIdle);
  }
}

TEST(Kill, TheNewestCompleteSnapshotLoadsAfterAKillAtAnyTime) {
  const TempFolder temporary;
  const Folder folder(temporary / "snapshots");
  Log& log = *new (
      mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Log;
  std::mt19937 random(7);
  std::map<int, int> killed_in;
  int64_t step = 1;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    // Four of ten kills wait for a phase, so that each sees one however fast the disk is.
    const int aim = kill_number % 10;
    log.stop_at = aim < kPhases ? aim : kIdle;
    const pid_t child = fork();
    if (child == 0) SaveWithoutEnd(folder, step, log);
    while (log.stop_at == kIdle ? log.phase == kIdle : log.phase != log.stop_at) {
      std::this_thread::yield();
    }
    if (log.stop_at == kIdle) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
    const int phase = log.phase;
    ++killed_in[phase];
    log.phase = kIdle;

    folder.Recover();
    const std::vector<int64_t> steps = folder.Steps();
    ASSERT_GE(steps.empty() ? 0 : steps.back(), log.published) << "kill " << kill_number;
    for (const int64_t there : steps) {
      ASSERT_TRUE(HoldsSample(Snapshot(folder.PathOf(there)), kScale)) << there;
    }
    ASSERT_EQ(temporary.Names("snapshots").size(), steps.size()) << "something was left behind";
    step = (steps.empty() ? 0 : steps.back()) + 1;
  }
  std::printf(
      "%d kills: %d writing shards, %d the manifest, %d renaming, %d removing, %d between\n",
      kKills, killed_in[kShards], killed_in[kManifest], killed_in[kPublish], killed_in[kPrune],
      killed_in[kIdle]);
  for (int phase = kShards; phase < kPhases; ++phase) {
    EXPECT_GE(killed_in[phase], kKills / 10) << "phase " << phase;
  }
  EXPECT_GT(log.published, 10);
}

}  // namespace
}  // namespace plimsoll::snapshots
