// What the segmentation of a volume holds, and how far it agrees with the volume's label.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/volumes/volume.h"

namespace plimsoll::trainer {

// By class.
struct VolumeScores {
  bool labelled = false;
  double voxel_ml = 0;
  std::vector<int64_t> voxels;  // that are segmented so
  // 2·TP / (2·TP + FP + FN) of the voxels that have a label; NaN of a class that the label doesn't
  // have, as in MONAI's DiceMetric.
  std::vector<double> dice;
};

// `segmented`: with classes as its intensities, below `classes`, and possibly with labels.
VolumeScores ScoresOf(const data::Volume& segmented, int64_t classes);

// The mean of the classes' Dice, without class 0, the background, and without NaN. NaN: there are
// none.
double MeanDice(std::span<const double> dice);

// Means over volumes with labels.
class MeanScores {
 public:
  void Add(const VolumeScores& scores);

  int64_t volumes() const { return volumes_; }
  // The mean Dice coefficient of each class over the volumes that have the class; NaN: no volume
  // has it.
  std::vector<double> dice() const;
  // The mean of the volumes' mean Dice coefficients.
  double mean() const { return sum_of_means_ / static_cast<double>(means_); }

 private:
  int64_t volumes_ = 0, means_ = 0;
  double sum_of_means_ = 0;
  std::vector<double> sums_;
  std::vector<int64_t> counts_;
};

// Lines without an end, for people. A class without a name is called by its number.
std::string ScoresText(const VolumeScores& scores, const std::vector<std::string>& names);
std::string ScoresText(const MeanScores& scores, const std::vector<std::string>& names);
// For programs: "classes", an object for each, and "mean_dice"; null stands for NaN.
nlohmann::ordered_json ScoresJson(const VolumeScores& scores,
                                  const std::vector<std::string>& names);
nlohmann::ordered_json ScoresJson(const MeanScores& scores, const std::vector<std::string>& names);

}  // namespace plimsoll::trainer
