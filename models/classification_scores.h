// Scores of a classifier, of its confusion matrix: C rows of C numbers, of which
// [label][prediction] is how many samples of the class `label` were taken for the class
// `prediction`.
#pragma once

#include <span>

namespace plimsoll::models {

// Of two classes, F1 of the second one, the positive: 2·TP / (2·TP + FP + FN). Of more, the mean F1
// of all classes that are a label or a prediction (macro F1). 0 where nothing is right.
double F1(std::span<const double> confusion);

// Matthews' correlation coefficient, from -1 to 1, for any number of classes: Gorodkin 2004,
// "Comparing two K-category assignments by a K-category correlation coefficient", eq. 8. With c
// samples right of s, and of each class k p_k predictions and t_k labels:
//   (c·s − Σ p_k·t_k) / √((s² − Σ p_k²) · (s² − Σ t_k²))
// 0 where all predictions, or all labels, are of one class.
double Mcc(std::span<const double> confusion);

}  // namespace plimsoll::models
