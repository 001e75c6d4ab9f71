// Which part of an image training sees: torchvision's RandomResizedCrop (Szegedy et al. 2015,
// "Going deeper with convolutions", section 6).
#pragma once

#include <array>

#include "data/images/image_files.h"
#include "data/images/image_mixing.h"
#include "data/sample_random.h"

namespace plimsoll::data {

// A box of a random part of the image's area with a random ratio of its sides, which is then
// resized to what the model sees.
struct ResizedCrop {
  std::array<double, 2> scale = {0.08, 1};           // of the area: from, to
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  // width by height, drawn evenly in logarithms

  // The box lies in the image. After ten tries that don't, it is the largest one in the middle
  // whose ratio is in range.
  ImageBox Draw(const ImageSize& image, SampleRandom& random) const;
};

}  // namespace plimsoll::data
