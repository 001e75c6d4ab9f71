// Filters of resampling (bilinear, bicubic, …) and the weights by which pixels of a line take part
// in those of another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::data {

// By Pillow's numbers, which transformers' `resample` takes.
enum class Resampling { kNearest = 0, kLanczos, kBilinear, kBicubic, kBox, kHamming };

// In the order of their numbers: "nearest", "lanczos", …
std::span<const std::string_view> ResamplingNames();

// A line of pixels that is resized, in rows or in columns. Of its `pixels` the part from `begin`
// on, `length` long, becomes a line of `to`, of which [first, first + count) are asked for.
struct Line {
  int64_t pixels = 0;
  double begin = 0, length = 0;
  int64_t to = 0, first = 0, count = 0;

  // True if what is asked for are pixels of the line as they are.
  bool stays() const { return begin == 0 && length == static_cast<double>(to); }
};

// The pixels [begin, end) of a line.
struct PixelRange {
  int64_t begin = 0, end = 0;
};

// Those that take part in what is asked for.
PixelRange PixelsOf(const Line& line, Resampling filter);

inline constexpr int kWeightBits = 22;  // of a weight, after the point

// The weights of the pixels that take part in each pixel asked for. Those of one pixel add up to 1,
// but for what each is rounded by.
struct ResamplingWindows {
  std::vector<PixelRange> ranges;  // [count]
  int64_t most = 0;                // the most pixels of one range
  std::vector<int32_t> weights;    // [count, most]; 0 after a range's end
};

// Not of kNearest, which weights nothing.
ResamplingWindows WindowsOf(const Line& line, Resampling filter);

// [count]: the pixels in which the centres of those asked for lie.
std::vector<int64_t> NearestOf(const Line& line);

}  // namespace plimsoll::data
