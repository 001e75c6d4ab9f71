// Copies tensors with their dimensions in another order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace plimsoll::models {

// The strides of a row-major tensor.
inline std::vector<int64_t> StridesOf(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Ordered returns values[order[i]] for each i; the function after it returns the inverse
// permutation of `order`.
inline std::vector<int64_t> Ordered(std::span<const int64_t> values, std::span<const int> order) {
  std::vector<int64_t> ordered;
  for (const int i : order) ordered.push_back(values[static_cast<size_t>(i)]);
  return ordered;
}
inline std::vector<int> Inverse(std::span<const int> order) {
  std::vector<int> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<size_t>(order[i])] = static_cast<int>(i);
  }
  return inverse;
}

// The side of a tile in elements, a cache line's worth. A tile is transposed in one piece.
template <typename T>
inline constexpr int64_t kTile = 64 / sizeof(T);

template <typename T>
void TransposeTile(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  T lines[kTile<T>][kTile<T>];
  for (int64_t c = 0; c < kTile<T>; ++c) std::memcpy(lines[c], from + c * from_stride, 64);
  for (int64_t r = 0; r < kTile<T>; ++r) {
    T line[kTile<T>];
    for (int64_t c = 0; c < kTile<T>; ++c) line[c] = lines[c][r];
    std::memcpy(to + r * to_stride, line, 64);
  }
}

// Copies a tensor of `shape` and `strides` to a row-major tensor. If the source's fastest dimension
// differs from the copy's, elements are copied in tiles.
template <typename T>
void CopyPermuted(const T* from, std::span<const int64_t> shape, std::span<const int64_t> strides,
                  T* to) {
  if (shape.empty()) {
    *to = *from;
    return;
  }
  const std::vector<int64_t> to_strides = StridesOf(shape);
  const size_t last = shape.size() - 1;
  // The dimension with the smallest stride in the source, except for the last dimension.
  size_t near = last;
  for (size_t i = 0; i < last; ++i) {
    if (near == last || strides[i] < strides[near]) near = i;
  }
  const int64_t rows = near == last ? 1 : shape[near], columns = shape[last];
  const int64_t row_stride = strides[near], column_stride = strides[last];
  int64_t matrices = 1;
  for (size_t i = 0; i < last; ++i) matrices *= i == near ? 1 : shape[i];
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    const T* source = from;
    T* target = to;
    for (size_t i = 0, rest = static_cast<size_t>(matrix); i < last; ++i) {
      if (i == near) continue;
      const auto size = static_cast<size_t>(shape[i]);
      source += static_cast<int64_t>(rest % size) * strides[i];
      target += static_cast<int64_t>(rest % size) * to_strides[i];
      rest /= size;
    }
    for (int64_t c0 = 0; c0 < columns; c0 += kTile<T>) {
      const int64_t c1 = std::min(columns, c0 + kTile<T>);
      for (int64_t r0 = 0; r0 < rows; r0 += kTile<T>) {
        const int64_t r1 = std::min(rows, r0 + kTile<T>);
        if (row_stride == 1 && r1 - r0 == kTile<T> && c1 - c0 == kTile<T>) {
          TransposeTile(source + r0 + c0 * column_stride, column_stride,
                        target + r0 * to_strides[near] + c0, to_strides[near]);
          continue;
        }
        for (int64_t c = c0; c < c1; ++c) {
          for (int64_t r = r0; r < r1; ++r) {
            target[r * to_strides[near] + c] = source[r * row_stride + c * column_stride];
          }
        }
      }
    }
  }
}

}  // namespace plimsoll::models
