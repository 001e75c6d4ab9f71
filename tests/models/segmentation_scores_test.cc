// Dice coefficients agree with MONAI 1.6.1's compute_dice, of one sample.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "models/scores.h"
#include "tests/support/expect_error.h"

namespace plimsoll::models {
namespace {

struct Case {
  std::vector<double> confusion;
  std::vector<double> dice;  // by class; NaN: there is none
  double mean;               // from class 1 on
};

TEST(SegmentationScores, AgreeWithMonai) {
  const Case cases[] = {
      {{36, 4, 7, 33}, {0.867469879518072, 0.857142857142857}, 0.857142857142857},
      {{36, 4, 6, 4, 28, 6, 4, 3, 29},
       {0.8, 0.767123287671233, 0.753246753246753},
       0.760185020458993},
      // Class 2 does not occur.
      {{62, 14, 0, 12, 7, 25, 0, 2, 0, 0, 0, 0, 6, 0, 0, 22},
       {0.760736196319018, 0.684931506849315, NAN, 0.6875},
       0.686215753424658},
  };
  for (const Case& c : cases) {
    const auto classes = static_cast<int64_t>(c.dice.size());
    const std::vector<DerivedMetric> scores = DiceScores(classes);
    ASSERT_EQ(scores.size(), c.dice.size());
    EXPECT_EQ(scores[0].name, "dice");
    EXPECT_NEAR(scores[0].value(c.confusion), c.mean, 1e-12);
    EXPECT_NEAR(Dice(c.confusion, 0), c.dice[0], 1e-12);
    for (int64_t k = 1; k < classes; ++k) {
      const DerivedMetric& score = scores[k];
      EXPECT_EQ(score.name, "dice." + std::to_string(k));
      EXPECT_TRUE(score.larger_is_better);
      const double got = score.value(c.confusion);
      if (std::isnan(c.dice[k])) {
        EXPECT_TRUE(std::isnan(got));
      } else {
        EXPECT_NEAR(got, c.dice[k], 1e-12);
      }
    }
  }
}

TEST(SegmentationScores, OfBackgroundAloneAreNone) {
  const std::vector<double> confusion = {8, 0, 0, 0};
  EXPECT_EQ(Dice(confusion, 0), 1);
  EXPECT_TRUE(std::isnan(MeanDice(confusion)));
}

// A class that is only predicted counts in the mean.
TEST(SegmentationScores, OfAClassThatIsNeverRightAreZero) {
  const std::vector<double> confusion = {8, 0, 1, 0, 5, 0, 0, 0, 0};
  EXPECT_EQ(Dice(confusion, 2), 0);
  EXPECT_EQ(MeanDice(confusion), 0.5);
}

TEST(SegmentationScores, AreOfTwoToSixtyFourClasses) {
  EXPECT_EQ(DiceScores(64).back().name, "dice.63");
  std::vector<double> confusion(64 * 64);
  confusion[63 * 64 + 63] = 1;
  EXPECT_EQ(DiceScores(64).back().value(confusion), 1);
  for (const int64_t classes : {1, 65}) {
    EXPECT_TRUE(MessageOf<InternalError>([&] { DiceScores(classes); }));
  }
}

}  // namespace
}  // namespace plimsoll::models
