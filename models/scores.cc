#include "models/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"
#include "ops/loss/squared_error.h"

namespace plimsoll::models {
namespace {

// The counts of each class in a confusion matrix.
struct Counts {
  explicit Counts(std::span<const double> confusion)
      : classes(static_cast<size_t>(std::lround(std::sqrt(confusion.size())))),
        right(classes),
        labels(classes),
        predictions(classes) {
    for (size_t label = 0; label < classes; ++label) {
      for (size_t prediction = 0; prediction < classes; ++prediction) {
        const double count = confusion[label * classes + prediction];
        labels[label] += count;
        predictions[prediction] += count;
        if (label == prediction) right[label] = count;
      }
    }
  }

  size_t classes;
  std::vector<double> right, labels, predictions;
};

enum Count : size_t { kTruePositive, kFalsePositive, kFalseNegative, kTrueNegative, kCounts };

std::array<double, kCounts> Sums(std::span<const double> counts) {
  std::array<double, kCounts> sums = {};
  for (size_t i = 0; i < counts.size(); ++i) sums[i % kCounts] += counts[i];
  return sums;
}

double F1Of(std::span<const double, kCounts> counts) {
  const double right = 2 * counts[kTruePositive];
  const double all = right + counts[kFalsePositive] + counts[kFalseNegative];
  return all == 0 ? 0 : right / all;
}

// Means computed from the moments.
struct Means {
  explicit Means(std::span<const double> moments)
      : moments_(moments), count_(Sum(ops::kCountMoment)) {}

  double of(ops::Moment moment) const { return count_ == 0 ? 0 : Sum(moment) / count_; }
  // The mean of a product minus the product of the means. The variance of equal numbers is 0 except
  // for rounding errors, which count as 0: the moments have a relative accuracy of 2^-36.
  double Covariance(ops::Moment product, ops::Moment a, ops::Moment b) const {
    const double mean = of(product), covariance = mean - of(a) * of(b);
    return std::abs(covariance) < 0x1p-33 * std::abs(mean) ? 0 : covariance;
  }

 private:
  double Sum(ops::Moment moment) const {
    const auto i = static_cast<size_t>(moment);
    return moments_[i] + moments_[ops::kMoments + i];
  }

  std::span<const double> moments_;
  double count_;
};

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

// One function for each class's Dice coefficient, since a derived metric is a function whose only
// argument is the confusion matrix.
constexpr std::array<Score, kMostClasses> kScores =
    ScoresOf(std::make_index_sequence<kMostClasses>());

int64_t ClassesOf(std::span<const double> confusion) {
  return std::lround(std::sqrt(confusion.size()));
}

}  // namespace

double F1(std::span<const double> confusion) {
  const Counts counts(confusion);
  double sum = 0, occurring = 0;
  for (size_t k = counts.classes == 2 ? 1 : 0; k < counts.classes; ++k) {
    const double either = counts.labels[k] + counts.predictions[k];
    if (either == 0) continue;
    sum += 2 * counts.right[k] / either;
    ++occurring;
  }
  return occurring == 0 ? 0 : sum / occurring;
}

double Mcc(std::span<const double> confusion) {
  const Counts counts(confusion);
  double right = 0, samples = 0, products = 0, predictions = 0, labels = 0;
  for (size_t k = 0; k < counts.classes; ++k) {
    const double t = counts.labels[k], p = counts.predictions[k];
    right += counts.right[k];
    samples += t;
    products += p * t;
    predictions += p * p;
    labels += t * t;
  }
  const double squares = (samples * samples - predictions) * (samples * samples - labels);
  return squares <= 0 ? 0 : (right * samples - products) / std::sqrt(squares);
}

double MicroF1(std::span<const double> counts) { return F1Of(Sums(counts)); }

double MacroF1(std::span<const double> counts) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); i += kCounts)
    sum += F1Of(counts.subspan(i).first<kCounts>());
  return sum / static_cast<double>(counts.size() / kCounts);
}

double LabelAccuracy(std::span<const double> counts) {
  const auto sums = Sums(counts);
  const double right = sums[kTruePositive] + sums[kTrueNegative];
  const double all = right + sums[kFalsePositive] + sums[kFalseNegative];
  return all == 0 ? 0 : right / all;
}

double MeanSquaredError(std::span<const double> moments) {
  return Means(moments).of(ops::kSquaredError);
}

double MeanAbsoluteError(std::span<const double> moments) {
  return Means(moments).of(ops::kAbsoluteError);
}

double R2(std::span<const double> moments) {
  const Means means(moments);
  const double variance =
      means.Covariance(ops::kTargetSquare, ops::kTargetMoment, ops::kTargetMoment);
  return variance <= 0 ? 0 : 1 - means.of(ops::kSquaredError) / variance;
}

double Pearson(std::span<const double> moments) {
  const Means means(moments);
  const double of_both = means.Covariance(ops::kProductMoment, ops::kMoment, ops::kTargetMoment);
  const double of_predictions = means.Covariance(ops::kSquareMoment, ops::kMoment, ops::kMoment);
  const double of_targets =
      means.Covariance(ops::kTargetSquare, ops::kTargetMoment, ops::kTargetMoment);
  if (of_predictions <= 0 || of_targets <= 0) return 0;
  return std::clamp(of_both / std::sqrt(of_predictions * of_targets), -1.0, 1.0);
}

double Dice(std::span<const double> confusion, int64_t of_class) {
  const int64_t classes = ClassesOf(confusion);
  double either = 0;
  for (int64_t other = 0; other < classes; ++other) {
    either += confusion[of_class * classes + other] + confusion[other * classes + of_class];
  }
  // 0 / 0 gives NaN.
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
