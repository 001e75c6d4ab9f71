// Resampling of pictures to other sizes and channels (nearest, bilinear, bicubic, …), equal to
// Pillow's. h × w picture, H × W result, C channels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/images/image_files.h"
#include "data/images/image_mixing.h"
#include "data/images/resampling_windows.h"

namespace plimsoll::data {

// A resize: a box of the picture is resized to a height and a width, and only the part `kept` of
// the result is computed.
struct PictureResize {
  ImageBox box;
  int64_t height = 0, width = 0;
  ImageBox kept;
  Resampling filter = Resampling::kBilinear;
};

// The pixels of the picture, reduced to 1 / shrink of its size, from which the result is computed.
ImageBox SourceOf(const PictureResize& resize, int64_t shrink = 1);

// The largest factor (1, 2, 4 or 8) by which a picture may be reduced first, so that the box is
// still at least as large as its resized size.
int64_t ShrinkFor(const PictureResize& resize);

// Returns the kept part [h,w,C], equal to Pillow's crop and resize. Each pixel is a weighted mean
// of the source pixels around its centre. The filter's width is in pixels of the smaller of both
// pictures (bilinear: a triangle over two of its pixels). kNearest takes the pixel that contains
// the centre. Pixels outside the box have no weight. The bits are those of Pillow up to 12, which
// resizes across first; Pillow 13 resizes some pictures down first, and then differs by 1. `pixels`
// [part.height,part.width,C], with C of 1 or 3, are the part `part` of the picture reduced to 1 /
// shrink of its size. The part must contain SourceOf(resize, shrink).
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, int64_t channels,
                             const ImageBox& part, const PictureResize& resize, int64_t shrink = 1);

// Resizes a box of the picture [h,w,C] to [H,W,C].
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size,
                             const ImageBox& box, int64_t height, int64_t width,
                             Resampling filter = Resampling::kBilinear);
// Resizes the complete picture.
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size, int64_t height,
                             int64_t width, Resampling filter = Resampling::kBilinear);

// The size of a picture whose shorter side becomes `side`; the longer side is scaled by the same
// factor, rounded down: torchvision's Resize(side).
ImageSize WithShorterSide(const ImageSize& size, int64_t side);

// The resize that keeps the middle [H,W] of the picture resized to the size `whole`, as
// transformers' center_crop does. `whole` must be at least as large as the middle.
PictureResize MiddleOf(const ImageSize& size, const ImageSize& whole, int64_t height, int64_t width,
                       Resampling filter = Resampling::kBilinear);

// Computes the middle [H,W,C] that MiddleOf describes. Allocates no memory for the rest of the
// resized picture, which may be very long.
std::vector<uint8_t> ResizedMiddle(std::span<const uint8_t> pixels, const ImageSize& size,
                                   const ImageSize& whole, int64_t height, int64_t width,
                                   Resampling filter = Resampling::kBilinear);

// Converts a picture between one and three channels. Grey is 0.299 red + 0.587 green + 0.114 blue
// (ITU-R BT.601); a grey picture becomes three equal channels.
std::vector<uint8_t> WithChannels(std::span<const uint8_t> pixels, const ImageSize& size,
                                  int64_t channels);

}  // namespace plimsoll::data
