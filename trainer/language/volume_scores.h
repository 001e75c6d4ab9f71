// The contents of a volume's segmentation, and its agreement with the volume's label.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/volumes/volume.h"

namespace plimsoll::trainer {

// Scores of one volume; each vector has an element for each class.
struct VolumeScores {
  bool labelled = false;
  double voxel_ml = 0;
  std::vector<int64_t> voxels;  // number of voxels segmented as each class
  // Dice coefficient, 2·TP / (2·TP + FP + FN), over voxels that have a label; NaN for a class that
  // is not in the label, as in MONAI's DiceMetric.
  std::vector<double> dice;
};

// Scores a segmented volume: the value of each voxel is its class, a number below `classes`. If the
// volume has no labels, all Dice coefficients are NaN.
VolumeScores ScoresOf(const data::Volume& segmented, int64_t classes);

// The mean of the classes' Dice, without class 0, the background, and without NaN. NaN if no value
// is left.
double MeanDice(std::span<const double> dice);

// Means over volumes with labels.
class MeanScores {
 public:
  void Add(const VolumeScores& scores);

  int64_t volumes() const { return volumes_; }
  // The mean Dice of each class over the volumes that have the class; NaN if no volume has it.
  std::vector<double> dice() const;
  // The mean of the volumes' mean Dice coefficients.
  double mean() const { return sum_of_means_ / static_cast<double>(means_); }

 private:
  int64_t volumes_ = 0, means_ = 0;
  double sum_of_means_ = 0;
  std::vector<double> sums_;
  std::vector<int64_t> counts_;
};

// Lines for people, without a newline at the end. A class without a name is shown by its number.
std::string ScoresText(const VolumeScores& scores, const std::vector<std::string>& names);
std::string ScoresText(const MeanScores& scores, const std::vector<std::string>& names);
// The scores as JSON, for scripts to read. "classes" is an array with an object for each class, and
// "mean_dice" is a number. NaN is written as null.
nlohmann::ordered_json ScoresJson(const VolumeScores& scores,
                                  const std::vector<std::string>& names);
nlohmann::ordered_json ScoresJson(const MeanScores& scores, const std::vector<std::string>& names);

}  // namespace plimsoll::trainer
