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

}  // namespace plimsoll
