// Order statistics of a few measurements.
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

// The mean, and the sample standard deviation (by n − 1), which needs two values.
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

// Where the mean of all lies, of which the sample is a part: 95 of 100 such intervals hold it, if
// values scatter normally (Student 1908). Nothing for one value.
std::optional<Interval> ConfidenceOf(const Mean& mean);

}  // namespace plimsoll
