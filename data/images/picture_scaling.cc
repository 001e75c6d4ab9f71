#include "data/images/picture_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace plimsoll::data {
namespace {

constexpr int kBits = 22;  // of a weight, behind the point
constexpr int32_t kHalf = 1 << (kBits - 1);

// The weights of the pixels [first, first + weights.size()) of a line; their sum is 1, but for what
// each is rounded by.
struct Window {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

// A line of `from` pixels that becomes one of `to`, of which [first, first + count) are asked for.
struct Line {
  int64_t from, to, first, count;
};

Line Whole(int64_t from, int64_t to) { return {from, to, 0, to}; }
Line Middle(int64_t from, int64_t to, int64_t count) { return {from, to, (to - count) / 2, count}; }

// The weight of a pixel by its distance from the centre, in pixels of the smaller picture; 0 beyond
// `reach`.
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
      break;  // takes one pixel, and weights none
  }
  throw InternalError("a resampling without a filter");
}

std::vector<Window> WindowsOf(const Line& line, const Filter& filter) {
  const double scale = static_cast<double>(line.from) / static_cast<double>(line.to);
  const double wider = std::max(scale, 1.0), reach = filter.reach * wider;
  std::vector<Window> windows;
  for (int64_t i = line.first; i < line.first + line.count; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    Window window;
    window.first = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
    const int64_t end = std::min(line.from, static_cast<int64_t>(centre + reach + 0.5));
    std::vector<double> shares;
    double sum = 0;
    for (int64_t k = window.first; k < end; ++k) {
      shares.push_back(filter.weight((static_cast<double>(k) - centre + 0.5) * (1 / wider)));
      sum += shares.back();
    }
    for (const double share : shares) {
      const double exact = share / sum * (1 << kBits);
      window.weights.push_back(static_cast<int32_t>(exact < 0 ? exact - 0.5 : exact + 0.5));
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

uint8_t Rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

// [h,W,C] of rows [h,w,C], each `row_bytes` behind the one before.
template <int64_t kChannels>
std::vector<uint8_t> Narrowed(const uint8_t* row, int64_t row_bytes, int64_t rows,
                              const Line& across, const Filter& filter) {
  const std::vector<Window> windows = WindowsOf(across, filter);
  std::vector<uint8_t> result(static_cast<size_t>(rows * across.count * kChannels));
  uint8_t* to = result.data();
  for (int64_t y = 0; y < rows; ++y, row += row_bytes) {
    for (const Window& window : windows) {
      int32_t sums[kChannels];
      std::fill_n(sums, kChannels, kHalf);
      const uint8_t* from = row + window.first * kChannels;
      for (const int32_t weight : window.weights) {
        for (int64_t c = 0; c < kChannels; ++c) sums[c] += weight * *from++;
      }
      for (const int32_t sum : sums) *to++ = Rounded(sum);
    }
  }
  return result;
}

// The pixels in which the centres of a line's pixels lie. Pillow adds step to step, rounding each.
std::vector<int64_t> NearestOf(const Line& line) {
  const double step = static_cast<double>(line.from) / static_cast<double>(line.to);
  std::vector<int64_t> places;
  double centre = step * 0.5;
  for (int64_t i = 0; i < line.first + line.count; ++i, centre += step) {
    if (i < line.first) continue;
    places.push_back(std::min(static_cast<int64_t>(centre), line.from - 1));
  }
  return places;
}

std::vector<uint8_t> Nearest(const uint8_t* first, const ImageSize& size, const Line& down,
                             const Line& across) {
  const std::vector<int64_t> columns = NearestOf(across);
  std::vector<uint8_t> result;
  result.reserve(static_cast<size_t>(down.count * across.count * size.channels));
  for (const int64_t y : NearestOf(down)) {
    for (const int64_t x : columns) {
      const uint8_t* const pixel = first + (y * size.width + x) * size.channels;
      result.insert(result.end(), pixel, pixel + size.channels);
    }
  }
  return result;
}

// Across first, and only the rows that are needed then. `first`: the box's first pixel.
std::vector<uint8_t> Resized(const uint8_t* first, const ImageSize& size, const Line& down,
                             const Line& across, Resampling resampling) {
  if (size.channels != 1 && size.channels != 3) throw InternalError("pictures of other channels");
  if (resampling == Resampling::kNearest) return Nearest(first, size, down, across);
  const Filter filter = FilterOf(resampling);
  const std::vector<Window> windows = WindowsOf(down, filter);
  const int64_t begin = windows.front().first;
  const int64_t rows = windows.back().first + std::ssize(windows.back().weights) - begin;
  const int64_t row_bytes = size.width * size.channels;
  first += begin * row_bytes;
  const std::vector<uint8_t> narrow = size.channels == 1
                                          ? Narrowed<1>(first, row_bytes, rows, across, filter)
                                          : Narrowed<3>(first, row_bytes, rows, across, filter);
  const int64_t narrow_bytes = across.count * size.channels;
  std::vector<uint8_t> result(static_cast<size_t>(down.count * narrow_bytes));
  std::vector<int32_t> sums(static_cast<size_t>(narrow_bytes));
  uint8_t* to = result.data();
  for (const Window& window : windows) {
    std::ranges::fill(sums, kHalf);
    const uint8_t* from = narrow.data() + (window.first - begin) * narrow_bytes;
    for (const int32_t weight : window.weights) {
      for (int32_t& sum : sums) sum += weight * *from++;
    }
    to = std::ranges::transform(sums, to, &Rounded).out;
  }
  return result;
}

constexpr std::string_view kResamplings[] = {"nearest", "lanczos", "bilinear",
                                             "bicubic", "box",     "hamming"};

}  // namespace

std::span<const std::string_view> ResamplingNames() { return kResamplings; }

std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size,
                             const ImageBox& box, int64_t height, int64_t width,
                             Resampling filter) {
  return Resized(pixels.data() + (box.top * size.width + box.left) * size.channels, size,
                 Whole(box.height, height), Whole(box.width, width), filter);
}

std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size, int64_t height,
                             int64_t width, Resampling filter) {
  return Resized(pixels, size, {0, 0, size.height, size.width}, height, width, filter);
}

std::vector<uint8_t> ResizedMiddle(std::span<const uint8_t> pixels, const ImageSize& size,
                                   const ImageSize& whole, int64_t height, int64_t width,
                                   Resampling filter) {
  return Resized(pixels.data(), size, Middle(size.height, whole.height, height),
                 Middle(size.width, whole.width, width), filter);
}

ImageSize WithShorterSide(const ImageSize& size, int64_t side) {
  const int64_t shorter = std::min(size.height, size.width);
  return {side * size.height / shorter, side * size.width / shorter, size.channels};
}

std::vector<uint8_t> WithChannels(std::span<const uint8_t> pixels, const ImageSize& size,
                                  int64_t channels) {
  if (channels == size.channels) return {pixels.begin(), pixels.end()};
  std::vector<uint8_t> result;
  if (size.channels == 1 && channels == 3) {
    for (const uint8_t grey : pixels) result.insert(result.end(), 3, grey);
    return result;
  }
  if (size.channels != 3 || channels != 1) throw InternalError("pictures of other channels");
  for (size_t i = 0; i < pixels.size(); i += 3) {
    // Pillow's integers: 16 bits after the point, rounded.
    const uint32_t grey = pixels[i] * 19595u + pixels[i + 1] * 38470u + pixels[i + 2] * 7471u;
    result.push_back(static_cast<uint8_t>((grey + 0x8000u) >> 16));
  }
  return result;
}

}  // namespace plimsoll::data
