// Evenly spaced elements of a larger row: pieces of `width` elements, `stride` apart.
//
//   columns 4 … 6 of a matrix with 8 columns:   first 4, width 3, stride 8
//   without its first element:                   the same with skip 1
//   elements in one piece:                      Stripe::Piece
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll {

struct Stripe {
  int64_t first = 0;  // index in the row of the first piece's first element
  int64_t width = 1;
  int64_t stride = 1;
  int64_t skip = 0;   // elements left out at the beginning
  int64_t count = 0;  // number of elements

  static constexpr Stripe Piece(int64_t first, int64_t count) {
    return {first, std::max<int64_t>(count, 1), std::max<int64_t>(count, 1), 0, count};
  }

  // The index in the row of element i.
  constexpr int64_t Number(int64_t i) const {
    const int64_t at = skip + i;
    return at < width ? first + at : first + at / width * stride + at % width;
  }

  // The number of elements from element i on that are contiguous in the row; ignores `count`.
  constexpr int64_t Together(int64_t i) const { return width - (skip + i) % width; }

  // The number of elements whose index in the row is below `number`: they are the first ones.
  constexpr int64_t Below(int64_t number) const {
    const int64_t offset = number - first;
    if (offset <= 0) return 0;
    return std::clamp<int64_t>(offset / stride * width + std::min(offset % stride, width) - skip, 0,
                               count);
  }

  // The stripe of elements `begin` to `end`.
  constexpr Stripe Part(int64_t begin, int64_t end) const {
    return {first, width, stride, skip + begin, end - begin};
  }
};

}  // namespace plimsoll
