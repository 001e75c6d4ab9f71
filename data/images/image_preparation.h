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

// To which size pictures are resized before the middle is cut out of them.
struct Resizing {
  int64_t shorter_side = 0;       // the longer one follows; 0: both sides are given
  int64_t height = 0, width = 0;  // where they are

  // The size of a picture of that size once it is resized.
  ImageSize Of(const ImageSize& picture) const;
};

// How bytes become numbers.
struct ByteScale {
  ChannelStatistics statistics;
  double rescale = kRescale;
};

struct ImagePreparation {
  // `image`: of the data's own images; `canvas`, at least as large: what the model sees.
  ImagePreparation(const ImageSize& image, const ImageSize& canvas, ByteScale bytes,
                   Resampling filter = Resampling::kBilinear);
  // Of images of any size: each is resized, to no less than the canvas, which is then cut out of
  // the middle.
  ImagePreparation(const Resizing& resizing, const ImageSize& canvas, ByteScale bytes,
                   Resampling filter = Resampling::kBilinear);

  // The same for a model that sees another canvas: sizes keep their ratio to it.
  ImagePreparation WithCanvas(const ImageSize& other) const;

  // Writes the canvas [H,W,C] with an image of the data's own size in its middle, normalised.
  void Draw(std::span<const uint8_t> pixels, std::span<float> out) const;
  // The same as training sees it: where and how the augmentation says for the sample.
  void DrawAugmented(std::span<const uint8_t> pixels, const Augmentation& augmentation,
                     uint64_t seed, int64_t sample, std::span<float> out) const;
  // How pictures of that size become images of the data's own size.
  PictureResize ResizeOf(const ImageSize& size) const;
  // An image of the data's own size, of a picture of any size in the data's channels.
  std::vector<uint8_t> Fitted(std::span<const uint8_t> pixels, const ImageSize& size) const;
  // As Draw, of a picture of any size, with one channel (grey) or three (red, green, blue): it gets
  // the data's channels, and is resized to the data's size or, where images have any, as the data's
  // own are.
  void DrawPicture(std::span<const uint8_t> pixels, const ImageSize& size,
                   std::span<float> out) const;

  bool any_size = false;  // are the data's images of any size?
  Resizing resizing;      // where they are; otherwise to `image`
  Resampling filter = Resampling::kBilinear;
  ImageSize image, canvas;  // `image` is the canvas where images have any size
  Placement centred;
  ByteScale bytes;
  NormalisedBytes normalised;
};

}  // namespace plimsoll::data
