// Where an image lies on the canvas that the model sees: padded, and for training shifted and
// flipped at random, as torchvision's Pad, RandomCrop and RandomHorizontalFlip do. h × w image,
// H × W canvas, C channels.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/image_files.h"
#include "trainer/data/image_normalisation.h"

namespace plimsoll::data {

struct Placement {
  // Where the canvas has the image's first pixel; both are negative where the canvas cuts it off.
  int64_t top = 0, left = 0;
  bool flipped = false;  // the canvas is mirrored afterwards, left to right
};

// What training does to images. Evaluations do none of it.
struct Augmentation {
  // The canvas gets so many zeros on each side, and a random part of the size of the canvas is cut
  // out of that.
  int64_t crop_padding = 0;
  bool flip = false;  // with probability ½

  // The placement for a sample. It depends on the seed and the sample's number alone.
  Placement Draw(const Placement& centred, uint64_t seed, int64_t sample) const;
};

// The image in the middle of a canvas that is at least as large; an odd pixel more is below it or
// to its right.
Placement Centred(const ImageSize& image, const ImageSize& canvas);

// Writes the canvas [H,W,C] with the image [h,w,C] where it was placed. Pixels that the image does
// not cover are zeros, and normalised as such.
void DrawImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
               const NormalisedBytes& normalised, const ImageSize& canvas, std::span<float> out);

}  // namespace plimsoll::data
