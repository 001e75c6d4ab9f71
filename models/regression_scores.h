// Scores of a model that predicts numbers, of its moments (ops/loss/squared_error.h): f32[2,8],
// each sum in two parts. 0 where there is no number; n numbers x are predicted for targets t.
#pragma once

#include <span>

namespace plimsoll::models {

double MeanSquaredError(std::span<const double> moments);   // Σ (x − t)² / n
double MeanAbsoluteError(std::span<const double> moments);  // Σ |x − t| / n
// The part of the targets' variance that is explained, 1 − Σ (x − t)² / Σ (t − mean t)²; 0 where
// all targets are equal. At most 1; below 0 for predictions worse than the targets' mean.
double R2(std::span<const double> moments);
// Pearson's correlation of predictions and targets, from -1 to 1; 0 where all of either are equal.
double Pearson(std::span<const double> moments);

}  // namespace plimsoll::models
