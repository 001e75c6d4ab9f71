#include "base/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plimsoll {
namespace {

double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
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
  // This way, equal values have exactly their own mean.
  for (const double value : sample) mean.mean += (value - sample[0]) / count;
  mean.mean += sample[0];
  if (sample.size() == 1) return mean;
  double squares = 0;
  for (const double value : sample) squares += (value - mean.mean) * (value - mean.mean);
  mean.deviation = std::sqrt(squares / (count - 1));
  return mean;
}

}  // namespace plimsoll
