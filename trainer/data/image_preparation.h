// What evaluations and predictions make of an image before a model sees it.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/image_augmentation.h"
#include "trainer/data/image_files.h"
#include "trainer/data/image_normalisation.h"

namespace plimsoll::data {

struct ImagePreparation {
  // `image`: of the data's own images; `canvas`, at least as large: what the model sees.
  ImagePreparation(const ImageSize& image, const ImageSize& canvas, ChannelStatistics statistics);
  // Of images of any size: their shorter sides become `shorter_side`, at least that of the canvas,
  // which is then cut out of the middle.
  ImagePreparation(int64_t shorter_side, const ImageSize& canvas, ChannelStatistics statistics);

  // Writes the canvas [H,W,C] with an image of the data's own size in its middle, normalised.
  void Draw(std::span<const uint8_t> pixels, std::span<float> out) const;
  // The same as training sees it: where and how the augmentation says for the sample.
  void DrawAugmented(std::span<const uint8_t> pixels, const Augmentation& augmentation,
                     uint64_t seed, int64_t sample, std::span<float> out) const;
  // As Draw, of a picture of any size, with one channel (grey) or three (red, green, blue): it gets
  // the data's channels, and is resized (picture_scaling.h) to the data's size or, where images
  // have any, as the data's own are.
  void DrawPicture(std::span<const uint8_t> pixels, const ImageSize& size,
                   std::span<float> out) const;

  int64_t shorter_side = 0;  // 0: images have one size
  ImageSize image, canvas;   // `image` is the canvas where images have any size
  Placement centred;
  ChannelStatistics statistics;
  NormalisedBytes normalised;
};

}  // namespace plimsoll::data
