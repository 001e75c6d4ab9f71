#include "models/label_scores.h"

#include <array>
#include <cstddef>

namespace plimsoll::models {
namespace {

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

}  // namespace

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

}  // namespace plimsoll::models
