// Weighted sums of rows of pixels, with AVX2: the two passes of resampling, across and then down.
// Sums are integers, so that their order changes no bit; each is rounded to a byte.
#pragma once

#include <cstdint>
#include <vector>

#include "data/images/resampling_windows.h"

namespace plimsoll::data {

// Rows of bytes in memory of others, each `stride` bytes after the one before.
struct ByteRows {
  const uint8_t* first = nullptr;
  int64_t stride = 0;
};

// Rows of resized pixels. They begin at multiples of kRowUnit bytes; bytes after a row's pixels
// hold anything.
struct ResampledRows {
  std::vector<uint8_t> bytes;
  int64_t stride = 0;
};
inline constexpr int64_t kRowUnit = 32;

// [rows, count, channels] of `rows` rows of pixels with 1 or 3 channels, of which the first is
// number `begin` of the windows' ranges. Reads no byte after the last row's last pixel in a range.
ResampledRows SumAcross(const ByteRows& from, int64_t rows, int64_t channels, int64_t begin,
                        const ResamplingWindows& across);

// Writes [count, row_bytes] of rows, of which the first is number `begin` of the windows' ranges.
void SumDown(const ResampledRows& from, int64_t begin, int64_t row_bytes,
             const ResamplingWindows& down, uint8_t* to);

}  // namespace plimsoll::data
