// Preprocessing of images for evaluations and predictions: resizing, cropping, rescaling and
// normalising, as transformers' image processors do them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/images/image_augmentation.h"
#include "data/images/image_files.h"
#include "data/images/image_normalisation.h"
#include "data/images/picture_scaling.h"

namespace plimsoll::data {

// The size to which pictures are resized before their middle is cut out.
struct Resizing {
  // Length of the shorter side, with the aspect ratio kept; 0: both sides are given.
  int64_t shorter_side = 0;
  int64_t height = 0, width = 0;  // both sides, if `shorter_side` is 0

  // The size of a picture after resizing.
  ImageSize Of(const ImageSize& picture) const;
};

// The conversion of bytes to numbers.
struct ByteScale {
  ChannelStatistics statistics;
  double rescale = kRescale;
};

struct ImagePreparation {
  // `image`: the size of the data set's images. `canvas`: the size that the model sees, at least as
  // large.
  ImagePreparation(const ImageSize& image, const ImageSize& canvas, ByteScale bytes,
                   Resampling filter = Resampling::kBilinear);
  // For data sets with images of any size: each image is resized to at least the canvas' size; then
  // the middle is cut out.
  ImagePreparation(const Resizing& resizing, const ImageSize& canvas, ByteScale bytes,
                   Resampling filter = Resampling::kBilinear);

  // The same preparation for a model with another canvas: the sizes are scaled with the canvas.
  ImagePreparation WithCanvas(const ImageSize& other) const;

  // Writes the normalised canvas [H,W,C] with an image of the data set's size in its middle.
  void Draw(std::span<const uint8_t> pixels, std::span<float> out) const;
  // Like Draw, but with the placement and changes that the augmentation draws for the sample.
  void DrawAugmented(std::span<const uint8_t> pixels, const Augmentation& augmentation,
                     uint64_t seed, int64_t sample, std::span<float> out) const;
  // How a picture of size `size` is resized to the data set's image size.
  PictureResize ResizeOf(const ImageSize& size) const;
  // Resizes a picture of any size, which already has the data set's channels, to the data set's
  // image size.
  std::vector<uint8_t> Fitted(std::span<const uint8_t> pixels, const ImageSize& size) const;
  // Like Draw, for a picture of any size with one channel (grey) or three (red, green, blue). The
  // picture is converted to the data set's channels and resized to the data set's image size, or by
  // `resizing` if images have any size.
  void DrawPicture(std::span<const uint8_t> pixels, const ImageSize& size,
                   std::span<float> out) const;

  bool any_size = false;  // whether the data set's images may have any size
  Resizing resizing;      // used if `any_size`; otherwise pictures are resized to `image`
  Resampling filter = Resampling::kBilinear;
  ImageSize image, canvas;  // `image` equals `canvas` if `any_size`
  Placement centred;
  ByteScale bytes;
  NormalisedBytes normalised;
};

}  // namespace plimsoll::data
