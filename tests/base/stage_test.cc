#include "base/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace plimsoll {
namespace {

using testing::MatchesRegex;

// One case, since a process starts once.
TEST(Stage, SaysWhereTheStartWent) {
  EXPECT_GT(SecondsInProcess(), 0);
  EXPECT_LT(SecondsInProcess(), 600);
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  {
    const Stage outer("planning");
    const Stage inner("a part of it");
    wait();
  }
  std::thread([&] {
    const Stage stage("beside it");
    wait();
  }).join();
  {
    const Stage again("planning");
    const Stage brief("nothing");
  }
  std::optional<Stage> open("first step");
  wait();
  EndStart();
  open.reset();
  const Stage late("a later one");

  const std::vector<StageTime> stages = StageTimes();
  ASSERT_EQ(stages.size(), 6);
  EXPECT_EQ(stages[1].name, "a part of it");
  EXPECT_EQ(stages[1].depth, 1);
  EXPECT_EQ(stages[1].thread, 0);
  EXPECT_GE(stages[1].end - stages[1].begin, 0.06);
  EXPECT_EQ(stages[2].thread, 1);
  EXPECT_EQ(stages[2].depth, 0);
  EXPECT_EQ(stages[5].name, "first step");
  EXPECT_GE(stages[5].end - stages[5].begin, 0.06);
  EXPECT_THAT(StartText(),
              MatchesRegex("started in [0-9.]+ s:( program [0-9.]+,)? planning 0.[0-9]+, first step "
                           "0.[0-9]+, other [0-9.]+"));
}

}  // namespace
}  // namespace plimsoll
