// F1 and MCC agree with scikit-learn 1.9.1's f1_score (binary of two classes, macro of more) and
// matthews_corrcoef.
#include "models/classification_scores.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::models {
namespace {

struct Case {
  std::vector<double> confusion;
  double f1, mcc;
};

TEST(ClassificationScores, AgreeWithScikitLearn) {
  const Case cases[] = {
      // A binary classifier.
      {{50, 10, 5, 35}, 0.823529411764706, 0.697518448882886},
      // The positive class is never found.
      {{9, 1, 4, 0}, 0, -0.175411603861406},
      // All predictions are of one class.
      {{10, 0, 4, 0}, 0, 0},
      // Three classes.
      {{12, 3, 1, 2, 20, 4, 0, 5, 9}, 0.727865961199294, 0.578671372861078},
      // Of four classes one does not occur.
      {{7, 1, 0, 2, 3, 8, 0, 1, 0, 0, 0, 0, 1, 1, 0, 6}, 0.699940582293524, 0.551267511389217},
      // A class that is only predicted.
      {{4, 0, 1, 2, 5, 1, 0, 0, 0}, 0.498834498834499, 0.51527158634288},
      // Worse than chance.
      {{1, 9, 8, 2}, 0.19047619047619, -0.703526470681448},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(F1(c.confusion), c.f1, 1e-12);
    EXPECT_NEAR(Mcc(c.confusion), c.mcc, 1e-12);
  }
}

}  // namespace
}  // namespace plimsoll::models
