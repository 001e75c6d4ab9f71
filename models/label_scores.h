// Scores of a classifier of several labels, of its counts: of each of C labels four numbers, its
// true positives, false positives, false negatives and true negatives (ops/loss/count_labels.h).
// They are those of scikit-learn, with 0 for what would be divided by 0.
#pragma once

#include <span>

namespace plimsoll::models {

// 2·TP / (2·TP + FP + FN), of the sums over all labels: f1_score(average="micro").
double MicroF1(std::span<const double> counts);
// The mean over the labels of the F1 of each: f1_score(average="macro").
double MacroF1(std::span<const double> counts);
// The part of all labels of all samples that is right: 1 − hamming_loss.
double LabelAccuracy(std::span<const double> counts);

}  // namespace plimsoll::models
