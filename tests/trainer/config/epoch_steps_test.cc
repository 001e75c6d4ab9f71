// Lengths in epochs become steps once the data is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/config/load_text.h"
#include "trainer/config/derived_values.h"

namespace plimsoll::config {
namespace {

using testing::ElementsAre;

TEST(Epochs, BecomeStepsOnceTheDataIsCounted) {
  Loaded loaded = LoadText(kBase +
                               "train: {epochs: 3, eval_every_epochs: 0.5, micro_batch: 16}\n"
                               "schedule: {name: multistep, warmup_epochs: 0.25, "
                               "milestone_epochs: [1, 2.5]}\n",
                           "run.yaml");
  RunConfig& config = loaded.config;
  EXPECT_EQ(EpochsKey(config), "train.epochs");
  EXPECT_EQ(config.train.steps, 0);
  // What is not known yet is left out, and is derived again.
  EXPECT_EQ(loaded.resolved_yaml.find(" steps:"), std::string::npos);
  EXPECT_EQ(loaded.resolved_yaml.find(" milestones:"), std::string::npos);
  ExpectEqual(LoadText(loaded.resolved_yaml, "resolved.yaml").config, config);

  std::vector<std::string> warnings;
  FollowEpochs(config, 100, 16, warnings);  // 6.25 steps an epoch
  EXPECT_EQ(config.train.steps, 19);
  EXPECT_EQ(config.train.eval_every, 4);
  EXPECT_EQ(config.schedule.warmup, 2);
  EXPECT_THAT(config.schedule.milestones, ElementsAre(7, 16));
  const std::string resolved = ToYaml(config);
  EXPECT_THAT(resolved, testing::HasSubstr("# steps: 19  (follows)"));
  EXPECT_EQ(LoadText(resolved, "resolved.yaml").resolved_yaml, loaded.resolved_yaml);
}

TEST(Epochs, WholeStepsAreNotRoundedUp) {
  RunConfig config = Parse(kBase + "train: {epochs: 0.3}\n");
  std::vector<std::string> warnings;
  FollowEpochs(config, 1000, 10, warnings);  // 0.3 · 100 is 30, but not in binary fractions
  EXPECT_EQ(config.train.steps, 30);
}

TEST(Epochs, OfAnObjectiveAndOfParts) {
  RunConfig config = Parse(kBase +
                           "train: {steps: 50}\n"
                           "schedule: {name: wsd}\n"
                           "objectives: {critic: {schedule: {name: cosine, warmup_epochs: 2}}}\n");
  EXPECT_EQ(EpochsKey(config), "objectives.critic.schedule.warmup_epochs");
  std::vector<std::string> warnings;
  FollowEpochs(config, 64, 8, warnings);
  EXPECT_EQ(config.objectives.at("critic").schedule.warmup, 16);
  EXPECT_EQ(config.schedule.warmup, 0);
  EXPECT_EQ(config.schedule.decay_steps, 10);
}

TEST(Epochs, ALongWarmUpIsShortenedWhenTheDataIsCounted) {
  RunConfig config = Parse(kBase + "train: {epochs: 1}\nschedule: {warmup_epochs: 2}\n");
  std::vector<std::string> warnings;
  FollowEpochs(config, 100, 10, warnings);
  EXPECT_EQ(config.schedule.warmup, 20);
  EXPECT_EQ(config.schedule.WarmUpWithin(config.train.steps), 1);
  EXPECT_THAT(warnings, ElementsAre("run.yaml:4: schedule.warmup_epochs: 20 steps, but train.steps "
                                    "is 10 (run.yaml:3); shortened to 1, a tenth of them"));
}

}  // namespace
}  // namespace plimsoll::config
