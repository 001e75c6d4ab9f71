// Weighted sums of rows of pixels with AVX2: the two passes of resampling, first across rows, then
// down columns. Sums are integers, so their order changes no bit; each sum is rounded to a byte.
#pragma once

#include <cstdint>
#include <vector>

#include "data/images/resampling_windows.h"

namespace plimsoll::data {

// A view of rows of bytes, `stride` bytes apart.
struct ByteRows {
  const uint8_t* first = nullptr;
  int64_t stride = 0;
};

// Rows of resized pixels. Each row begins at a multiple of kRowUnit bytes; the bytes after a row's
// pixels are undefined.
struct ResampledRows {
  std::vector<uint8_t> bytes;
  int64_t stride = 0;
};
inline constexpr int64_t kRowUnit = 32;

// Resizes `rows` rows of pixels with 1 or 3 channels to [rows, count, channels]. The first pixel of
// `from` is number `begin` in the windows' ranges. Reads no byte after the last row's last pixel in
// a range.
ResampledRows SumAcross(const ByteRows& from, int64_t rows, int64_t channels, int64_t begin,
                        const ResamplingWindows& across);

// Resizes rows down to [count, row_bytes]. The first row of `from` is number `begin` in the
// windows' ranges.
void SumDown(const ResampledRows& from, int64_t begin, int64_t row_bytes,
             const ResamplingWindows& down, uint8_t* to);

}  // namespace plimsoll::data
