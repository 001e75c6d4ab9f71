// The loop of CPU kernels over the pixels of images in NHWC.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"
#include "ops/simd.h"

namespace plimsoll::ops {

struct PoolPixel {
  int64_t index;  // counted over all images
  int64_t image;
  int32_t row, column;
};

struct PixelLoop {
  int64_t images, rows, columns;
  int64_t work;  // number of elements that are read for a pixel
};

// Calls body(pixel) for every pixel, on all threads.
template <typename Body>
void ForPixels(ThreadPool& pool, const PixelLoop& loop, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, loop.work));
  const int64_t pixels = loop.images * loop.rows * loop.columns;
  pool.ParallelFor(pixels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t row = index / loop.columns;  // counted over all images
      body(PoolPixel{index, row / loop.rows, static_cast<int32_t>(row % loop.rows),
                     static_cast<int32_t>(index % loop.columns)});
    }
  });
}

}  // namespace plimsoll::ops
