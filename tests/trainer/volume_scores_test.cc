#include "trainer/language/volume_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace plimsoll::trainer {
namespace {

const std::vector<std::string> kNames = {"background", "liver", "tumour"};

// A row of voxels of 2 × 1 × 5 mm.
VolumeScores Scores(const std::vector<float>& segmented, const std::vector<uint8_t>& labels) {
  return ScoresOf({.name = "v",
                   .size = {1, 1, std::ssize(segmented)},
                   .channels = 1,
                   .spacing = {2, 1, 5},
                   .voxels = segmented,
                   .labels = labels},
                  3);
}

TEST(VolumeScores, CountVoxelsAndTheirShareInCommon) {
  const VolumeScores scores = Scores({0, 1, 1, 1, 2, 2}, {0, 0, 1, 1, 1, 1});
  EXPECT_EQ(scores.voxels, (std::vector<int64_t>{1, 3, 2}));
  EXPECT_DOUBLE_EQ(scores.voxel_ml, 0.01);
  EXPECT_DOUBLE_EQ(scores.dice[0], 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores.dice[1], 4.0 / 7);
  EXPECT_TRUE(std::isnan(scores.dice[2]));  // not in the label
  EXPECT_DOUBLE_EQ(MeanDice(scores.dice), 4.0 / 7);
  EXPECT_EQ(ScoresText(scores, kNames),
            "background 1 voxel, 0.01 ml, Dice 0.6667; liver 3 voxels, 0.03 ml, Dice 0.5714; "
            "tumour 2 voxels, 0.02 ml; mean Dice 0.5714");
  const nlohmann::ordered_json json = ScoresJson(scores, {});
  EXPECT_EQ(json.at("classes")[2].dump(),
            R"({"class":2,"name":"2","voxels":2,"ml":0.02,"dice":null})");
  EXPECT_DOUBLE_EQ(json.at("mean_dice"), 4.0 / 7);
}

TEST(VolumeScores, VoxelsWithoutALabelAreInNoDice) {
  const VolumeScores all = Scores({0, 1, 1, 1, 2, 2}, {0, 0, 1, 1, 1, 1});
  const VolumeScores scores =
      Scores({0, 1, 1, 1, 2, 2, 1, 0}, {0, 0, 1, 1, 1, 1, data::kNoLabel, data::kNoLabel});
  EXPECT_EQ(scores.voxels, (std::vector<int64_t>{2, 4, 2}));
  EXPECT_EQ(scores.dice[0], all.dice[0]);
  EXPECT_EQ(scores.dice[1], all.dice[1]);
}

TEST(VolumeScores, WithoutALabelThereIsNoDice) {
  const VolumeScores scores = Scores({0, 1, 1}, {});
  EXPECT_EQ(ScoresText(scores, kNames),
            "background 1 voxel, 0.01 ml; liver 2 voxels, 0.02 ml; tumour 0 voxels, 0.00 ml");
  MeanScores means;
  means.Add(scores);
  EXPECT_EQ(means.volumes(), 0);
}

TEST(MeanScores, LeaveOutWhatLabelsDoNotHave) {
  MeanScores means;
  means.Add(Scores({0, 1, 2, 2}, {0, 1, 2, 2}));  // 1, 1
  means.Add(Scores({0, 0, 0, 2}, {0, 1, 1, 2}));  // 0, 1
  means.Add(Scores({0, 1, 0, 0}, {0, 1, 0, 0}));  // 1, none
  means.Add(Scores({0, 1, 0, 0}, {0, 0, 0, 0}));  // none
  EXPECT_EQ(means.volumes(), 4);
  EXPECT_DOUBLE_EQ(means.dice()[1], 2.0 / 3);
  EXPECT_DOUBLE_EQ(means.dice()[2], 1);
  EXPECT_DOUBLE_EQ(means.mean(), (1 + 0.5 + 1) / 3);
  EXPECT_EQ(ScoresText(means, {}).substr(0, 32), "mean Dice of 4 volumes 0.8333; 0");
}

}  // namespace
}  // namespace plimsoll::trainer
