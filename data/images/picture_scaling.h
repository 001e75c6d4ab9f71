// Resampling of pictures to other sizes and channels (nearest, bilinear, bicubic, …) as Pillow does
// it. h × w picture, H × W result, C channels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/images/image_files.h"
#include "data/images/image_mixing.h"

namespace plimsoll::data {

// By Pillow's numbers, which transformers' `resample` takes.
enum class Resampling { kNearest = 0, kLanczos, kBilinear, kBicubic, kBox, kHamming };

// In the order of their numbers: "nearest", "lanczos", …
std::span<const std::string_view> ResamplingNames();

// [H,W,C] of a box of the picture [h,w,C], as Pillow's crop and resize: each pixel is the mean of
// those below it, weighted by a filter as wide as the smaller of both pictures asks for (bilinear:
// a triangle over two of its pixels); with kNearest, the pixel in which its centre lies. Nothing
// outside the box takes part. It has the bits of Pillow up to 12, which resizes across first;
// Pillow 13 resizes some pictures down first, and differs by 1 there.
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size,
                             const ImageBox& box, int64_t height, int64_t width,
                             Resampling filter = Resampling::kBilinear);
// Of all of the picture.
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size, int64_t height,
                             int64_t width, Resampling filter = Resampling::kBilinear);

// Of a picture whose shorter side becomes `side`, and the longer one as many times as much, rounded
// down: torchvision's Resize(side).
ImageSize WithShorterSide(const ImageSize& size, int64_t side);

// The middle [H,W,C] of the picture resized to the size `whole`, as transformers' center_crop takes
// it; `whole` is at least as large. Takes no memory for the rest, which may be of any length.
std::vector<uint8_t> ResizedMiddle(std::span<const uint8_t> pixels, const ImageSize& size,
                                   const ImageSize& whole, int64_t height, int64_t width,
                                   Resampling filter = Resampling::kBilinear);

// The picture, of one or three channels, with one or three: grey is 0.299 red + 0.587 green + 0.114
// blue (ITU-R BT.601), and becomes three equal channels.
std::vector<uint8_t> WithChannels(std::span<const uint8_t> pixels, const ImageSize& size,
                                  int64_t channels);

}  // namespace plimsoll::data
