// Changes of an image's colours at random, as torchvision's ColorJitter makes them.
#pragma once

#include <cstdint>
#include <span>

#include "data/images/image_files.h"
#include "data/sample_random.h"

namespace plimsoll::data {

// Brightness, contrast and saturation get a factor drawn from 1 ± these, none below 0; the hue is
// turned by a part of the circle drawn from 0 ± `hue`, at most ½. 0: it stays.
struct ColourJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;

  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
  // Changes the image [H,W,C] in an order that is drawn, too. `scratch` has at least as many bytes.
  void Change(SampleRandom& random, const ImageSize& size, std::span<uint8_t> image,
              std::span<uint8_t> scratch) const;
};

// Turns the hue of each pixel by `turn`, −½ to ½ of the circle, in Pillow's HSV of bytes: as
// torchvision's adjust_hue of Pillow's images. Images of one channel have no hue.
void TurnHue(double turn, int64_t channels, std::span<uint8_t> image);

}  // namespace plimsoll::data
