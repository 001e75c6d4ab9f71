// Scores that follow from the sums of a metric over an evaluation: F1, Matthews' correlation,
// accuracies of labels, errors and correlations of regressions, Dice coefficients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace plimsoll::models {

// Scores of a classifier, of its confusion matrix: C rows of C numbers, of which
// [label][prediction] is how many samples of the class `label` were taken for the class
// `prediction`.

// Of two classes, F1 of the second one, the positive: 2·TP / (2·TP + FP + FN). Of more, the mean F1
// of all classes that are a label or a prediction (macro F1). 0 where nothing is right.
double F1(std::span<const double> confusion);

// Matthews' correlation coefficient, from -1 to 1, for any number of classes: Gorodkin 2004,
// "Comparing two K-category assignments by a K-category correlation coefficient", eq. 8. With c
// samples right of s, and of each class k p_k predictions and t_k labels:
//   (c·s − Σ p_k·t_k) / √((s² − Σ p_k²) · (s² − Σ t_k²))
// 0 where all predictions, or all labels, are of one class.
double Mcc(std::span<const double> confusion);

// Scores of a classifier of several labels, of its counts: of each of C labels four numbers, its
// true positives, false positives, false negatives and true negatives (ops/loss/confusion.h).
// They are those of scikit-learn, with 0 for what would be divided by 0.

// 2·TP / (2·TP + FP + FN), of the sums over all labels: f1_score(average="micro").
double MicroF1(std::span<const double> counts);
// The mean over the labels of the F1 of each: f1_score(average="macro").
double MacroF1(std::span<const double> counts);
// The part of all labels of all samples that is right: 1 − hamming_loss.
double LabelAccuracy(std::span<const double> counts);

// Scores of a model that predicts numbers, of its moments (ops/loss/squared_error.h): f32[2,8],
// each sum in two parts. 0 where there is no number; n numbers x are predicted for targets t.

double MeanSquaredError(std::span<const double> moments);   // Σ (x − t)² / n
double MeanAbsoluteError(std::span<const double> moments);  // Σ |x − t| / n
// The part of the targets' variance that is explained, 1 − Σ (x − t)² / Σ (t − mean t)²; 0 where
// all targets are equal. At most 1; below 0 for predictions worse than the targets' mean.
double R2(std::span<const double> moments);
// Pearson's correlation of predictions and targets, from -1 to 1; 0 where all of either are equal.
double Pearson(std::span<const double> moments);

// Scores of a segmentation, of its confusion matrix, in which voxels count as samples above. They
// are those of all voxels together, of any sample, and not means over samples.

// The Dice coefficient of a class, 2·TP / (2·TP + FP + FN): Dice 1945, "Measures of the amount of
// ecologic association between species". NaN where it is no label and no prediction.
double Dice(std::span<const double> confusion, int64_t of_class);

// The mean Dice coefficient of the classes from 1 on that are a label or a prediction; class 0 is
// the background. NaN without any.
double MeanDice(std::span<const double> confusion);

// What follows from the matrix of that many classes, 2 to 64: "dice", the mean, and of each class
// but the background "dice.1", "dice.2", ….
std::vector<DerivedMetric> DiceScores(int64_t classes);

}  // namespace plimsoll::models
