// The threads of pooling kernels: one for each pack of channels of each pixel of the result.
// Offsets within an image have 32 bits (InferPooled in ops/pooling/pool_window.h), offsets of
// images 64 bits. Packs are counted in 32 bits, because 32-bit division is fast.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/pooling/pool_window.h"

namespace plimsoll::ops {

inline constexpr int kPoolThreads = 256;

struct PixelPack {
  uint32_t image;
  int32_t row, column;
  uint32_t channel;  // the first channel of the pack
};

// The packs of one launch.
struct PixelPacks {
  uint32_t count, rows, columns, per_pixel;

  // Finds the calling thread's pack; returns false if the thread has none.
  __device__ bool Find(uint32_t* pack) const {
    *pack = blockIdx.x * kPoolThreads + threadIdx.x;
    return *pack < count;
  }
  template <int N>
  __device__ PixelPack Locate(uint32_t pack) const {
    const uint32_t pixel = pack / per_pixel, row = pixel / columns, image = row / rows;
    return {image, static_cast<int32_t>(row - image * rows),
            static_cast<int32_t>(pixel - row * columns), (pack - pixel * per_pixel) * N};
  }
};

// Calls launch(first image, images) for as many images at a time as 32 bits can count parts of.
template <typename Launch>
void ForImages(int64_t images, int64_t parts_per_image, const Launch& launch) {
  if (parts_per_image == 0) return;
  const int64_t at_once = std::max<int64_t>(1, (int64_t{1} << 31) / parts_per_image);
  for (int64_t first = 0; first < images; first += at_once) {
    launch(first, std::min(at_once, images - first));
  }
}

// Calls launch(packs, blocks, first element of the images, first element of the pooled images) for
// results with rows × columns pixels, or blocks of pixels, per image.
template <int N, typename Launch>
void ForPacks(const PoolGeometry& p, int64_t rows, int64_t columns, const Launch& launch) {
  const int64_t per_pixel = p.channels / N, per_image = rows * columns * per_pixel;
  ForImages(p.batch, per_image, [&](int64_t first, int64_t images) {
    const PixelPacks packs{static_cast<uint32_t>(images * per_image), static_cast<uint32_t>(rows),
                           static_cast<uint32_t>(columns), static_cast<uint32_t>(per_pixel)};
    launch(packs, (packs.count + kPoolThreads - 1) / kPoolThreads, first * p.image_elements(),
           first * p.pooled_elements());
  });
}

// Like the function above, for results that are images, or that are pooled from images.
template <int N, bool kPooled, typename Launch>
void ForPixelPacks(const PoolGeometry& p, const Launch& launch) {
  const int64_t rows = kPooled ? p.rows.pooled : p.rows.size;
  const int64_t columns = kPooled ? p.columns.pooled : p.columns.size;
  ForPacks<N>(p, rows, columns, launch);
}

}  // namespace plimsoll::ops
