// Scores of a segmentation, of its confusion matrix: C rows of C numbers, of which
// [label][prediction] is how many voxels of the class `label` were taken for the class
// `prediction`. They are those of all voxels together, whichever samples they belong to, and not
// means over samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace plimsoll::models {

// The Dice coefficient of a class, 2·TP / (2·TP + FP + FN): Dice 1945, "Measures of the amount of
// ecologic association between species". NaN where it is no label and no prediction.
double Dice(std::span<const double> confusion, int64_t of_class);

// The mean Dice coefficient of the classes from 1 on that are a label or a prediction; class 0 is
// the background. NaN where there is none.
double MeanDice(std::span<const double> confusion);

// What follows from the matrix of that many classes, 2 to 64: "dice", the mean, and of each class
// but the background "dice.1", "dice.2", ….
std::vector<DerivedMetric> DiceScores(int64_t classes);

}  // namespace plimsoll::models
