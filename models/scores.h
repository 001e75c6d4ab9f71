// Scores that are computed from a metric's sum over an evaluation: F1, Matthews' correlation,
// accuracies of labels, errors and correlations of regressions, Dice coefficients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace plimsoll::models {

// Scores of a single-label classifier are computed from its C × C confusion matrix:
// [label][prediction] is the number of samples of class `label` that were predicted as
// `prediction`.

// For two classes: F1 of the second class, the positive one, 2·TP / (2·TP + FP + FN). For more: the
// mean F1 of all classes that occur as a label or a prediction (macro F1). 0 if no prediction is
// right.
double F1(std::span<const double> confusion);

// Matthews' correlation coefficient, from -1 to 1, for any number of classes: Gorodkin 2004,
// "Comparing two K-category assignments by a K-category correlation coefficient", eq. 8. For s
// samples, c of them right, and p_k predictions and t_k labels of each class k:
//   (c·s − Σ p_k·t_k) / √((s² − Σ p_k²) · (s² − Σ t_k²))
// 0 if all predictions, or all labels, have one class.
double Mcc(std::span<const double> confusion);

// Scores of a multi-label classifier are computed from four counts for each of C labels: true
// positives, false positives, false negatives and true negatives (ops/loss/confusion.h). They equal
// scikit-learn's, with 0 for a division by 0.

// F1 from the sums over all labels, 2·TP / (2·TP + FP + FN): f1_score(average="micro").
double MicroF1(std::span<const double> counts);
// The mean of the labels' F1 scores: f1_score(average="macro").
double MacroF1(std::span<const double> counts);
// The share of right labels, over all labels of all samples: 1 − hamming_loss.
double LabelAccuracy(std::span<const double> counts);

// Scores of a regression model are computed from its moments (ops/loss/squared_error.h): f32[2,8],
// in which each sum has two parts. There are n predictions x for targets t. Scores are 0 if n is 0.

double MeanSquaredError(std::span<const double> moments);   // Σ (x − t)² / n
double MeanAbsoluteError(std::span<const double> moments);  // Σ |x − t| / n
// The explained share of the targets' variance, 1 − Σ (x − t)² / Σ (t − mean t)²; 0 if all targets
// are equal. At most 1; below 0 for predictions worse than the targets' mean.
double R2(std::span<const double> moments);
// Pearson's correlation of predictions and targets, from -1 to 1; 0 if all predictions or all
// targets are equal.
double Pearson(std::span<const double> moments);

// Scores of a segmentation are computed from a confusion matrix of voxels. They are totals over all
// voxels of all samples, not means over samples.

// The Dice coefficient of a class, 2·TP / (2·TP + FP + FN): Dice 1945, "Measures of the amount of
// ecologic association between species". NaN if the class is neither a label nor a prediction.
double Dice(std::span<const double> confusion, int64_t of_class);

// The mean Dice coefficient of the classes from 1 on that occur as a label or a prediction; class 0
// is the background. NaN if no such class occurs.
double MeanDice(std::span<const double> confusion);

// The scores computed from the confusion matrix of 2 to 64 classes: the mean, "dice", and for each
// class but the background "dice.1", "dice.2", ….
std::vector<DerivedMetric> DiceScores(int64_t classes);

}  // namespace plimsoll::models
