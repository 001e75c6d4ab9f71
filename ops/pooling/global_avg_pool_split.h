// How the means of images are divided on a GPU, and their scratch memory: one sum, in float32, for
// each chunk of each channel. The division depends only on the shape, and so do the bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/shape.h"

namespace plimsoll::ops {

// The number of parts into which the pixels of an image are cut. It is one, unless the images have
// too few channels to fill a large GPU (two blocks of threads on each of 132 multiprocessors). In
// that case parts have at least 256 pixels, so that adding them takes little time.
inline int64_t GlobalAvgPoolParts(const graph::Shape& x) {
  // A block of threads has at most 32 packs of 16 bytes of a pixel: 128 elements of 4 bytes.
  constexpr int64_t kColumnsOfBlock = 128, kBlocks = 264, kLeast = 256;
  const int64_t blocks = x.dim(0) * ((x.dim(3) + kColumnsOfBlock - 1) / kColumnsOfBlock);
  const int64_t pixels = x.dim(1) * x.dim(2);
  return std::clamp<int64_t>(kBlocks / std::max<int64_t>(1, blocks), 1,
                             std::max<int64_t>(1, pixels / kLeast));
}

inline int64_t GlobalAvgPoolBytes(const graph::Shape& x) {
  const int64_t parts = GlobalAvgPoolParts(x);
  return parts == 1 ? 0 : parts * x.dim(0) * x.dim(3) * static_cast<int64_t>(sizeof(float));
}

}  // namespace plimsoll::ops
