// Pictures in other sizes and channels. h × w picture, H × W result, C channels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/image_files.h"

namespace plimsoll::data {

// [H,W,C] of the picture [h,w,C], as Pillow's resize with BILINEAR but for one rounding less: each
// pixel is the mean of those below it, weighted by a triangle that is as wide as two pixels of the
// smaller of both pictures.
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size, int64_t height,
                             int64_t width);

// The picture, of one or three channels, with one or three: grey is 0.299 red + 0.587 green + 0.114
// blue (ITU-R BT.601), and becomes three equal channels.
std::vector<uint8_t> WithChannels(std::span<const uint8_t> pixels, const ImageSize& size,
                                  int64_t channels);

}  // namespace plimsoll::data
