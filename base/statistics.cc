#include "base/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "base/error.h"

namespace plimsoll {
namespace {

double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// The half width of a mean's 95 % confidence interval in standard errors, for `freedom` degrees of
// freedom.
double StudentQuantile(int64_t freedom) {
  constexpr std::array kFirst = {12.706, 4.303, 3.182, 2.776, 2.571,
                                 2.447,  2.365, 2.306, 2.262, 2.228};
  if (freedom <= std::ssize(kFirst)) return kFirst[static_cast<size_t>(freedom - 1)];
  // Abramowitz and Stegun 1964, 26.7.5, which is right to three digits for larger values.
  constexpr double z = 1.959964, z2 = z * z;
  const auto v = static_cast<double>(freedom);
  return z * (1 + (z2 + 1) / (4 * v) + (5 * z2 * z2 + 16 * z2 + 3) / (96 * v * v));
}

}  // namespace

Quartiles QuartilesOf(std::vector<double> sample) {
  if (sample.empty()) throw InternalError("quartiles of nothing");
  std::sort(sample.begin(), sample.end());
  return {Quantile(sample, 0.25), Quantile(sample, 0.5), Quantile(sample, 0.75)};
}

Mean MeanOf(const std::vector<double>& sample) {
  if (sample.empty()) throw InternalError("the mean of nothing");
  const auto count = static_cast<double>(sample.size());
  Mean mean{.mean = 0, .deviation = {}, .count = static_cast<int64_t>(sample.size())};
  // Averages the differences from the first value, so that the mean of equal values is exact.
  for (const double value : sample) mean.mean += (value - sample[0]) / count;
  mean.mean += sample[0];
  if (sample.size() == 1) return mean;
  double squares = 0;
  for (const double value : sample) squares += (value - mean.mean) * (value - mean.mean);
  mean.deviation = std::sqrt(squares / (count - 1));
  return mean;
}

std::optional<Interval> ConfidenceOf(const Mean& mean) {
  if (!mean.deviation || mean.count < 2) return std::nullopt;
  const double half = StudentQuantile(mean.count - 1) * *mean.deviation /
                      std::sqrt(static_cast<double>(mean.count));
  return Interval{mean.mean - half, mean.mean + half};
}

}  // namespace plimsoll
