// Filters of resampling (bilinear, bicubic, …): the weight of each source pixel of a line in each
// pixel of the resized line.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::data {

// Filters, numbered as in Pillow, whose numbers transformers' `resample` takes.
enum class Resampling { kNearest = 0, kLanczos, kBilinear, kBicubic, kBox, kHamming };

// The filters' names in the order of their numbers: "nearest", "lanczos", …
std::span<const std::string_view> ResamplingNames();

// A row or column of pixels that is resized. Its part that begins at `begin` and is `length` long
// becomes a line of `to` pixels, of which only [first, first + count) are computed.
struct Line {
  int64_t pixels = 0;
  double begin = 0, length = 0;
  int64_t to = 0, first = 0, count = 0;

  // True if resizing changes nothing: the computed pixels equal the line's pixels.
  bool stays() const { return begin == 0 && length == static_cast<double>(to); }
};

// A range of pixels [begin, end) in a line.
struct PixelRange {
  int64_t begin = 0, end = 0;
};

// The source pixels that the resized pixels depend on.
PixelRange PixelsOf(const Line& line, Resampling filter);

inline constexpr int kWeightBits = 22;  // fractional bits of a weight

// The source pixels and weights of each computed pixel. The weights of one pixel add up to 1,
// except for rounding.
struct ResamplingWindows {
  std::vector<PixelRange> ranges;  // [count]: the source pixels of each computed pixel
  int64_t most = 0;                // the number of pixels in the longest range
  std::vector<int32_t> weights;    // [count, most]; 0 after a range's end
};

// Computes the windows of a line. Not for kNearest, which has no weights.
ResamplingWindows WindowsOf(const Line& line, Resampling filter);

// [count]: for each computed pixel, the source pixel that contains its centre.
std::vector<int64_t> NearestOf(const Line& line);

}  // namespace plimsoll::data
