#include "models/regression_scores.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ops/loss/squared_error.h"

namespace plimsoll::models {
namespace {

// Means of the moments.
struct Means {
  explicit Means(std::span<const double> moments)
      : moments_(moments), count_(Sum(ops::kCountMoment)) {}

  double of(ops::Moment moment) const { return count_ == 0 ? 0 : Sum(moment) / count_; }
  // The mean of a product without the product of the means. What rounding leaves of the variance of
  // equal numbers counts as 0: the moments are known to 2^-36 of their value.
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

}  // namespace

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

}  // namespace plimsoll::models
