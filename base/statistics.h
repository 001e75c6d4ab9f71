// Statistics of a few measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll {

// The values below which a quarter, a half and three quarters of the sample lie, interpolated
// between neighbours (Hyndman, Fan 1996, type 7).
struct Quartiles {
  double low = 0, median = 0, high = 0;
};

// `sample` is not empty.
Quartiles QuartilesOf(std::vector<double> sample);

// The mean, and the sample standard deviation (divided by n − 1), which needs two values.
struct Mean {
  double mean = 0;
  std::optional<double> deviation;
  int64_t count = 0;
};

// `sample` is not empty.
Mean MeanOf(const std::vector<double>& sample);

struct Interval {
  double low = 0, high = 0;
};

// The 95 % confidence interval of the mean of the population from which the sample is taken,
// assuming a normal distribution (Student 1908). nullopt for a single value.
std::optional<Interval> ConfidenceOf(const Mean& mean);

}  // namespace plimsoll
