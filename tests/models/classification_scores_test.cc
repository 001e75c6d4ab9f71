// F1 and MCC agree with scikit-learn 1.9.1's f1_score (binary of two classes, macro of more) and
// matthews_corrcoef; the scores of several labels with its f1_score and hamming_loss, those of
// numbers with its mean_squared_error, mean_absolute_error and r2_score and NumPy's corrcoef.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "models/scores.h"
#include "ops/loss/squared_error.h"
#include "tests/ops/op_runner.h"

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

TEST(LabelScores, AgreeWithScikitLearn) {
  // Of 20 samples, with a label that none has.
  const std::vector<double> counts = {1, 5, 8, 6, 1, 5, 3, 11, 13, 2, 4, 1, 0, 3, 0, 17};
  EXPECT_DOUBLE_EQ(MicroF1(counts), 0.5);
  EXPECT_DOUBLE_EQ(MacroF1(counts), 0.28645833333333337);
  EXPECT_DOUBLE_EQ(LabelAccuracy(counts), 0.625);
  const std::vector<double> none = {0, 0, 0, 2, 0, 0, 0, 2};
  EXPECT_EQ(MicroF1(none), 0);
  EXPECT_EQ(MacroF1(none), 0);
  EXPECT_EQ(LabelAccuracy(none), 1);
}

// The moments that an evaluation has of these predictions, in batches of that size.
std::vector<double> MomentsOf(const std::vector<double>& predictions,
                              const std::vector<double>& targets, size_t batch) {
  using graph::DType;
  std::vector<double> sums(2 * ops::kMoments);
  const ops::TestTensor one = ops::Values(DType::kFloat32, {}, {1});
  for (size_t first = 0; first < predictions.size(); first += batch) {
    const size_t count = std::min(batch, predictions.size() - first);
    ops::TestTensor x({DType::kFloat32, {static_cast<int64_t>(count)}});
    ops::TestTensor t(x.type());
    for (size_t i = 0; i < count; ++i) {
      x.set(static_cast<int64_t>(i), predictions[first + i]);
      t.set(static_cast<int64_t>(i), targets[first + i]);
    }
    const ops::TestTensor moments = ops::RunOp("squared_error", {&x, &one, &t})[1];
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += moments.at(static_cast<int64_t>(k));
  }
  return sums;
}

TEST(RegressionScores, AgreeWithScikitLearn) {
  for (const double offset : {0.0, 1024.0}) {
    std::vector<double> x = {1, 2.5, -0.5, 4, 0.25}, t = {1.5, 2, 0, 3.25, -1};
    for (double& value : x) value += offset;
    for (double& value : t) value += offset;
    for (const size_t batch : {1, 2, 5}) {
      const std::vector<double> moments = MomentsOf(x, t, batch);
      EXPECT_DOUBLE_EQ(MeanSquaredError(moments), 0.575);
      EXPECT_DOUBLE_EQ(MeanAbsoluteError(moments), 0.7);
      EXPECT_NEAR(R2(moments), 0.7433035714285714, 1e-5);
      EXPECT_NEAR(Pearson(moments), 0.9026304693298146, 1e-5);
    }
  }
}

TEST(RegressionScores, AreZeroWhereTheyHaveNoMeaning) {
  const std::vector<double> none(2 * ops::kMoments);
  const std::vector<double> equal = MomentsOf({1, 2, 3}, {0.1, 0.1, 0.1}, 2);
  const std::vector<double> constant = MomentsOf({0.7, 0.7, 0.7}, {1, 2, 3}, 2);
  for (const auto* moments : {&none, &equal}) EXPECT_EQ(R2(*moments), 0);
  for (const auto* moments : {&none, &equal, &constant}) EXPECT_EQ(Pearson(*moments), 0);
  EXPECT_EQ(MeanSquaredError(none), 0);
  EXPECT_LT(R2(constant), 0);
}

}  // namespace
}  // namespace plimsoll::models
