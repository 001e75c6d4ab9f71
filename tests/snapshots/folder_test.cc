#include "snapshots/folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/snapshots/sample.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::snapshots {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() { snapshots_.Recover(); }

  const TempFolder folder_;
  const Folder snapshots_{folder_ / "run/snapshots"};
};

TEST_F(FolderTest, NamesSayTheStep) {
  EXPECT_EQ(StepOf("step-000001000"), 1000);
  EXPECT_EQ(StepOf("step-1234567890123"), 1234567890123);
  for (const char* name : {"step-1000", "step-000001000.partial", "step-", "step-0000000-1",
                           "000001000", "step-00000100x", "step-0000001000"}) {
    EXPECT_EQ(StepOf(name), std::nullopt) << name;
  }
}

TEST_F(FolderTest, ASnapshotIsThereOnceItIsPublished) {
  snapshots_.Begin(5);
  Manifest manifest;
  WriteShards(snapshots_.PartialOf(5), 5, 1, manifest);
  snapshots_.Finish(manifest);
  EXPECT_EQ(snapshots_.Steps(), Steps{});
  snapshots_.Publish(5);
  EXPECT_EQ(snapshots_.Steps(), Steps{5});
  EXPECT_TRUE(HoldsSample(Snapshot(snapshots_.PathOf(5))));
  EXPECT_EQ(folder_.Names("run/snapshots").size(), 1u);
}

TEST_F(FolderTest, WhatCannotBeReadBackIsNotPublished) {
  snapshots_.Begin(5);
  Manifest manifest;
  WriteShards(snapshots_.PartialOf(5), 5, 1, manifest);
  fs::resize_file(snapshots_.PartialOf(5) + "/rank-1.safetensors", 100);
  ExpectUserError([&] { snapshots_.Finish(manifest); }, {"rank-1.safetensors", "100 bytes"});
  snapshots_.Abandon(5);
  EXPECT_TRUE(folder_.Names("run/snapshots").empty());
}

TEST_F(FolderTest, ReplacesASnapshotOfTheSameStep) {
  Save(snapshots_, 5);
  Save(snapshots_, 5, 3);
  EXPECT_TRUE(HoldsSample(Snapshot(snapshots_.PathOf(5)), 3));
  EXPECT_EQ(folder_.Names("run/snapshots").size(), 1u);
}

TEST_F(FolderTest, RecoversFromEveryInterruption) {
  Save(snapshots_, 5);
  Save(snapshots_, 6);
  fs::create_directory(snapshots_.PartialOf(7));
  WriteFile(snapshots_.PartialOf(7) + "/rank-0.safetensors", "half");
  // Replacing without an atomic exchange of names: before and after the new snapshot got its name.
  fs::rename(snapshots_.PathOf(5), snapshots_.PathOf(5) + ".replaced");
  fs::copy(snapshots_.PathOf(6), snapshots_.PathOf(6) + ".replaced");
  fs::remove(snapshots_.PathOf(6) + ".replaced/manifest.json");
  WriteFile(snapshots_.path() + "/notes.txt", "mine");
  snapshots_.Recover();
  EXPECT_EQ(snapshots_.Steps(), (Steps{5, 6}));
  EXPECT_TRUE(HoldsSample(Snapshot(snapshots_.PathOf(5))));
  EXPECT_TRUE(HoldsSample(Snapshot(snapshots_.PathOf(6))));
  EXPECT_EQ(folder_.Names("run/snapshots"),
            (std::vector<std::string>{"notes.txt", "step-000000005", "step-000000006"}));
}

TEST_F(FolderTest, KeepsWhatItIsTold) {
  const auto left = [&](int64_t current, const Retention& retention) {
    for (int64_t step = 10; step <= 60; step += 10) Save(snapshots_, step);
    snapshots_.Prune(current, retention);
    return snapshots_.Steps();
  };
  EXPECT_EQ(left(60, {}), (Steps{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(left(60, {.newest = 1}), (Steps{60}));
  EXPECT_EQ(left(60, {.newest = 2, .every = 30}), (Steps{30, 50, 60}));
  EXPECT_EQ(left(60, {.newest = 1, .best = 20}), (Steps{20, 60}));
  EXPECT_EQ(left(60, {.newest = 9}), (Steps{10, 20, 30, 40, 50, 60}));
  // 50 and 60 belong to another course of the training, which branched off at 30 or before.
  EXPECT_EQ(left(40, {}), (Steps{10, 20, 30, 40}));
  EXPECT_EQ(left(40, {.newest = 2}), (Steps{30, 40}));
  for (const int64_t step : snapshots_.Steps()) {
    EXPECT_TRUE(HoldsSample(Snapshot(snapshots_.PathOf(step))));
  }
}

TEST_F(FolderTest, AFolderThatVanishedIsNamed) {
  fs::remove_all(snapshots_.path());
  EXPECT_EQ(snapshots_.Steps(), Steps{});
  ExpectUserError([&] { snapshots_.Begin(5); }, {snapshots_.PartialOf(5), "cannot be created"});
  WriteFile(snapshots_.path(), "a file in the way");
  ExpectUserError([&] { snapshots_.Recover(); }, {snapshots_.path(), "cannot be created"});
}

}  // namespace
}  // namespace plimsoll::snapshots
