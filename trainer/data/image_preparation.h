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

  // Writes the canvas [H,W,C] with an image of the data's own size in its middle, normalised.
  void Draw(std::span<const uint8_t> pixels, std::span<float> out) const;
  // The same of a picture of any size, with one channel (grey) or three (red, green, blue): it gets
  // the data's channels and is resized to the data's size (picture_scaling.h) first.
  void DrawPicture(std::span<const uint8_t> pixels, const ImageSize& size,
                   std::span<float> out) const;

  ImageSize image, canvas;
  Placement centred;
  ChannelStatistics statistics;
  NormalisedBytes normalised;
};

}  // namespace plimsoll::data
