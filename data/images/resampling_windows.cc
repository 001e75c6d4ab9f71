#include "data/images/resampling_windows.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace plimsoll::data {
namespace {

// A filter: the weight of a pixel at a distance from the centre, in pixels of the smaller picture.
// The weight is 0 beyond `reach`.
struct Filter {
  double reach;
  double (*weight)(double distance);
};

double Sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double Lanczos(double x) { return x >= -3 && x < 3 ? Sinc(x) * Sinc(x / 3) : 0; }

double Bilinear(double x) { return std::max(0.0, 1 - std::abs(x)); }

// Keys 1981, "Cubic convolution interpolation for digital image processing", with a = −1/2.
double Bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

double Box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

double Hamming(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

Filter FilterOf(Resampling resampling) {
  switch (resampling) {
    case Resampling::kLanczos:
      return {3, &Lanczos};
    case Resampling::kBilinear:
      return {1, &Bilinear};
    case Resampling::kBicubic:
      return {2, &Bicubic};
    case Resampling::kBox:
      return {0.5, &Box};
    case Resampling::kHamming:
      return {1, &Hamming};
    case Resampling::kNearest:
      break;  // kNearest takes one pixel and has no weights
  }
  throw InternalError("a resampling without a filter");
}

constexpr std::string_view kResamplings[] = {"nearest", "lanczos", "bilinear",
                                             "bicubic", "box",     "hamming"};

// The mapping of the pixels of a line to the pixels of the resized line.
struct Sampling {
  Sampling(const Line& line, const Filter& filter)
      : line(line),
        filter(filter),
        scale(line.length / static_cast<double>(line.to)),
        wider(std::max(scale, 1.0)),
        reach(filter.reach * wider) {}

  double CentreOf(int64_t i) const { return line.begin + (static_cast<double>(i) + 0.5) * scale; }
  PixelRange RangeOf(int64_t i) const {
    const double centre = CentreOf(i);
    const auto begin = static_cast<int64_t>(centre - reach + 0.5);
    const auto end = static_cast<int64_t>(centre + reach + 0.5);
    return {std::max<int64_t>(0, begin), std::min(line.pixels, end)};
  }

  const Line& line;
  Filter filter;
  double scale, wider, reach;
};

}  // namespace

std::span<const std::string_view> ResamplingNames() { return kResamplings; }

PixelRange PixelsOf(const Line& line, Resampling filter) {
  if (filter == Resampling::kNearest) {
    const std::vector<int64_t> places = NearestOf(line);
    return {places.front(), places.back() + 1};
  }
  const Sampling sampling(line, FilterOf(filter));
  return {sampling.RangeOf(line.first).begin, sampling.RangeOf(line.first + line.count - 1).end};
}

ResamplingWindows WindowsOf(const Line& line, Resampling resampling) {
  const Sampling sampling(line, FilterOf(resampling));
  ResamplingWindows windows;
  for (int64_t i = line.first; i < line.first + line.count; ++i) {
    const PixelRange range = sampling.RangeOf(i);
    windows.most = std::max(windows.most, range.end - range.begin);
    windows.ranges.push_back(range);
  }
  windows.weights.resize(static_cast<size_t>(line.count * windows.most));
  std::vector<double> shares(static_cast<size_t>(windows.most));
  int32_t* weights = windows.weights.data();
  for (int64_t i = 0; i < line.count; ++i, weights += windows.most) {
    const auto [begin, end] = windows.ranges[static_cast<size_t>(i)];
    const double centre = sampling.CentreOf(line.first + i);
    double sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      const double distance = (static_cast<double>(k) - centre + 0.5) * (1 / sampling.wider);
      const double share = sampling.filter.weight(distance);
      shares[static_cast<size_t>(k - begin)] = share;
      sum += share;
    }
    for (int64_t k = 0; k < end - begin; ++k) {
      const double exact = shares[static_cast<size_t>(k)] / sum * (1 << kWeightBits);
      weights[k] = static_cast<int32_t>(exact < 0 ? exact - 0.5 : exact + 0.5);
    }
  }
  return windows;
}

// Like Pillow, adds one step after the other and rounds each sum.
std::vector<int64_t> NearestOf(const Line& line) {
  const double step = line.length / static_cast<double>(line.to);
  std::vector<int64_t> places;
  double centre = line.begin + step * 0.5;
  for (int64_t i = 0; i < line.first + line.count; ++i, centre += step) {
    if (i < line.first) continue;
    places.push_back(std::min(static_cast<int64_t>(centre), line.pixels - 1));
  }
  return places;
}

}  // namespace plimsoll::data
