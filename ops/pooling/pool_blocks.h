// Images in blocks of stride × stride pixels, for the gradient of windows whose size is known at
// compile time. The pixels of a block are in the same few windows, so a thread that computes a
// block reads each window once.
#pragma once

#include <cstdint>

#include "ops/pooling/pool_window.h"

namespace plimsoll::ops {

// The blocks along one dimension: block b has the elements b·kStride, …, (b + 1)·kStride − 1.
template <int32_t kKernelSize, int32_t kStrideSize, int32_t kPad>
struct PoolBlocks {
  static constexpr int32_t kKernel = kKernelSize, kStride = kStrideSize;

  static constexpr bool Fit(const PoolAxis& axis) {
    return axis.kernel == kKernel && axis.stride == kStride && axis.pad == kPad;
  }
  // The number of blocks. The last block may reach beyond the image.
  static constexpr int32_t Count(const PoolAxis& axis) {
    return (axis.size + kStride - 1) / kStride;
  }
  // The windows that contain elements of block b are b + kFirst, …, b + kFirst + kWindows − 1, of
  // which some may not exist.
  static constexpr int32_t kFirst = (kPad - kKernel + kKernel * kStride) / kStride - kKernel + 1;
  static constexpr int32_t kWindows = (kStride - 1 + kPad) / kStride - kFirst + 1;

  // The position of a block's element in a window; `window` is counted from the block's first
  // window. The result is below 0, or kernel size or more, if the window does not contain the
  // element.
  static constexpr int32_t Position(int32_t window, int32_t element) {
    return element + kPad - (window + kFirst) * kStride;
  }
  static constexpr bool Contains(int32_t window, int32_t element) {
    return Position(window, element) >= 0 && Position(window, element) < kKernel;
  }
};

}  // namespace plimsoll::ops
