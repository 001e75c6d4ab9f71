#include "models/segmentation_scores.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"

namespace plimsoll::models {
namespace {

constexpr size_t kMostClasses = 64;

template <size_t kClass>
double DiceOf(std::span<const double> confusion) {
  return Dice(confusion, kClass);
}

using Score = double (*)(std::span<const double>);

template <size_t... kClasses>
constexpr std::array<Score, sizeof...(kClasses)> ScoresOf(std::index_sequence<kClasses...>) {
  return {&DiceOf<kClasses>...};
}

// By class: a derived metric is a function of the matrix alone.
constexpr std::array<Score, kMostClasses> kScores =
    ScoresOf(std::make_index_sequence<kMostClasses>());

int64_t ClassesOf(std::span<const double> confusion) {
  return std::lround(std::sqrt(confusion.size()));
}

}  // namespace

double Dice(std::span<const double> confusion, int64_t of_class) {
  const int64_t classes = ClassesOf(confusion);
  double either = 0;
  for (int64_t other = 0; other < classes; ++other) {
    either += confusion[of_class * classes + other] + confusion[other * classes + of_class];
  }
  // 0 / 0 is NaN.
  return 2 * confusion[of_class * classes + of_class] / either;
}

double MeanDice(std::span<const double> confusion) {
  double sum = 0, occurring = 0;
  for (int64_t k = 1; k < ClassesOf(confusion); ++k) {
    const double dice = Dice(confusion, k);
    if (std::isnan(dice)) continue;
    sum += dice;
    ++occurring;
  }
  return sum / occurring;
}

std::vector<DerivedMetric> DiceScores(int64_t classes) {
  if (classes < 2 || classes > static_cast<int64_t>(kMostClasses)) {
    throw InternalError("Dice scores of " + std::to_string(classes) + " classes");
  }
  std::vector<DerivedMetric> scores = {{"dice", &MeanDice, true}};
  for (int64_t k = 1; k < classes; ++k) {
    scores.push_back({"dice." + std::to_string(k), kScores[k], true});
  }
  return scores;
}

}  // namespace plimsoll::models
