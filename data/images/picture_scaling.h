// Resampling of pictures to other sizes and channels (nearest, bilinear, bicubic, …) as Pillow does
// it. h × w picture, H × W result, C channels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/images/image_files.h"
#include "data/images/image_mixing.h"
#include "data/images/resampling_windows.h"

namespace plimsoll::data {

// What a picture becomes: a box of it is resized to a height and a width, and a part of that is
// kept.
struct PictureResize {
  ImageBox box;
  int64_t height = 0, width = 0;
  ImageBox kept;
  Resampling filter = Resampling::kBilinear;
};

// The pixels that take part, of the picture as it is or at 1 / shrink of its size.
ImageBox SourceOf(const PictureResize& resize, int64_t shrink = 1);

// By how much (1, 2, 4 or 8) a picture may be shrunk first, so that the box still has at least the
// size that it is resized to.
int64_t ShrinkFor(const PictureResize& resize);

// What is kept, [h,w,C], as Pillow's crop and resize: each pixel is the mean of those below it,
// weighted by a filter as wide as the smaller of both pictures asks for (bilinear: a triangle over
// two of its pixels); with kNearest, the pixel in which its centre lies. Nothing outside the box
// takes part. It has the bits of Pillow up to 12, which resizes across first; Pillow 13 resizes
// some pictures down first, and differs by 1 there. `pixels` [part.height,part.width,C], C of 1 or
// 3, are those of a part of the picture at 1 / shrink of its size, which has the source in it.
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, int64_t channels,
                             const ImageBox& part, const PictureResize& resize, int64_t shrink = 1);

// [H,W,C] of a box of the picture [h,w,C].
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size,
                             const ImageBox& box, int64_t height, int64_t width,
                             Resampling filter = Resampling::kBilinear);
// Of all of the picture.
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size, int64_t height,
                             int64_t width, Resampling filter = Resampling::kBilinear);

// Of a picture whose shorter side becomes `side`, and the longer one as many times as much, rounded
// down: torchvision's Resize(side).
ImageSize WithShorterSide(const ImageSize& size, int64_t side);

// The middle [H,W] of the picture resized to the size `whole`, as transformers' center_crop takes
// it; `whole` is at least as large.
PictureResize MiddleOf(const ImageSize& size, const ImageSize& whole, int64_t height, int64_t width,
                       Resampling filter = Resampling::kBilinear);

// The same, [H,W,C]. Takes no memory for the rest, which may be of any length.
std::vector<uint8_t> ResizedMiddle(std::span<const uint8_t> pixels, const ImageSize& size,
                                   const ImageSize& whole, int64_t height, int64_t width,
                                   Resampling filter = Resampling::kBilinear);

// The picture, of one or three channels, with one or three: grey is 0.299 red + 0.587 green + 0.114
// blue (ITU-R BT.601), and becomes three equal channels.
std::vector<uint8_t> WithChannels(std::span<const uint8_t> pixels, const ImageSize& size,
                                  int64_t channels);

}  // namespace plimsoll::data
