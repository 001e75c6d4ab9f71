#include "trainer/language/volume_scores.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/amounts.h"
#include "formats/json.h"

namespace plimsoll::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kCubicMillimetres = 1000;  // cubic millimetres in a millilitre

std::string NameOf(size_t number, const std::vector<std::string>& names) {
  return number < names.size() ? names[number] : std::to_string(number);
}

Json NumberOrNull(double number) { return std::isnan(number) ? Json() : Json(number); }

}  // namespace

VolumeScores ScoresOf(const data::Volume& segmented, int64_t classes) {
  const auto count = static_cast<size_t>(classes);
  VolumeScores scores = {.labelled = !segmented.labels.empty(),
                         .voxel_ml = segmented.spacing[0] * segmented.spacing[1] *
                                     segmented.spacing[2] / kCubicMillimetres,
                         .voxels = std::vector<int64_t>(count),
                         .dice = std::vector<double>(count, kNan)};
  // Numbers of voxels by class, counting only voxels with a label.
  std::vector<int64_t> labels(count), predicted(count), both(count);
  for (size_t i = 0; i < segmented.voxels.size(); ++i) {
    const auto prediction = static_cast<size_t>(segmented.voxels[i]);
    ++scores.voxels.at(prediction);
    if (!scores.labelled || segmented.labels[i] == data::kNoLabel) continue;
    ++predicted[prediction];
    ++labels.at(segmented.labels[i]);
    if (segmented.labels[i] == prediction) ++both[prediction];
  }
  for (size_t k = 0; k < count; ++k) {
    if (labels[k] == 0) continue;
    scores.dice[k] =
        2 * static_cast<double>(both[k]) / static_cast<double>(labels[k] + predicted[k]);
  }
  return scores;
}

double MeanDice(std::span<const double> dice) {
  double sum = 0, count = 0;
  for (const double one : dice.subspan(1)) {
    if (std::isnan(one)) continue;
    sum += one;
    ++count;
  }
  return sum / count;  // NaN if count is 0
}

void MeanScores::Add(const VolumeScores& scores) {
  if (!scores.labelled) return;
  ++volumes_;
  sums_.resize(scores.dice.size());
  counts_.resize(scores.dice.size());
  for (size_t k = 0; k < scores.dice.size(); ++k) {
    if (std::isnan(scores.dice[k])) continue;
    sums_[k] += scores.dice[k];
    ++counts_[k];
  }
  const double mean = MeanDice(scores.dice);
  if (std::isnan(mean)) return;
  sum_of_means_ += mean;
  ++means_;
}

std::vector<double> MeanScores::dice() const {
  std::vector<double> means;
  for (size_t k = 0; k < sums_.size(); ++k) {
    means.push_back(sums_[k] / static_cast<double>(counts_[k]));
  }
  return means;
}

std::string ScoresText(const VolumeScores& scores, const std::vector<std::string>& names) {
  std::string text;
  for (size_t k = 0; k < scores.voxels.size(); ++k) {
    text += fmt::format("{}{} {}, {:.2f} ml", k == 0 ? "" : "; ",
                        formats::Printable(NameOf(k, names)), Counted(scores.voxels[k], "voxel"),
                        static_cast<double>(scores.voxels[k]) * scores.voxel_ml);
    if (!std::isnan(scores.dice[k])) text += fmt::format(", Dice {:.4f}", scores.dice[k]);
  }
  if (const double mean = MeanDice(scores.dice); !std::isnan(mean)) {
    text += fmt::format("; mean Dice {:.4f}", mean);
  }
  return text;
}

std::string ScoresText(const MeanScores& scores, const std::vector<std::string>& names) {
  std::string text =
      std::isnan(scores.mean())
          ? fmt::format("labels of {} hold background only", Counted(scores.volumes(), "volume"))
          : fmt::format("mean Dice of {} {:.4f}", Counted(scores.volumes(), "volume"),
                        scores.mean());
  const std::vector<double> dice = scores.dice();
  for (size_t k = 0; k < dice.size(); ++k) {
    if (std::isnan(dice[k])) continue;
    text += fmt::format("; {} {:.4f}", formats::Printable(NameOf(k, names)), dice[k]);
  }
  return text;
}

Json ScoresJson(const VolumeScores& scores, const std::vector<std::string>& names) {
  Json json = {{"classes", Json::array()}};
  for (size_t k = 0; k < scores.voxels.size(); ++k) {
    json["classes"].push_back({{"class", k},
                               {"name", NameOf(k, names)},
                               {"voxels", scores.voxels[k]},
                               {"ml", static_cast<double>(scores.voxels[k]) * scores.voxel_ml},
                               {"dice", NumberOrNull(scores.dice[k])}});
  }
  json["mean_dice"] = NumberOrNull(MeanDice(scores.dice));
  return json;
}

Json ScoresJson(const MeanScores& scores, const std::vector<std::string>& names) {
  Json json = {{"labelled_volumes", scores.volumes()}, {"classes", Json::array()}};
  const std::vector<double> dice = scores.dice();
  for (size_t k = 0; k < dice.size(); ++k) {
    json["classes"].push_back(
        {{"class", k}, {"name", NameOf(k, names)}, {"dice", NumberOrNull(dice[k])}});
  }
  json["mean_dice"] = NumberOrNull(scores.mean());
  return json;
}

}  // namespace plimsoll::trainer
