// The operations of RandAugment on images of bytes: Cubuk et al. 2020, "RandAugment: Practical
// automated data augmentation with a reduced search space", section 3, with the operations,
// strengths and roundings of torchvision's RandAugment on tensors of bytes.
//
// H height, W width, C channels; images are [H,W,C]. Colours are those of three channels: with
// another number kSaturation leaves an image as it is, and kContrast takes the mean of all bytes.
#pragma once

#include <cstdint>
#include <span>

#include "data/images/image_files.h"

namespace plimsoll::data {

enum class ImageOperation {
  kIdentity,
  kShearX,  // geometry: nearest pixels, zeros outside
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,  // blends with another image, and cuts off behind the point
  kSaturation,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};
inline constexpr int kImageOperations = 14;

// Strengths are numbers from 0 to kStrengths − 1, as in the paper.
inline constexpr int64_t kStrengths = 31;

// What the operation takes at that strength: an angle in degrees, a shift in pixels, what is added
// to a factor of 1, bits that stay, a threshold. 0 for operations that take nothing.
double MagnitudeOf(ImageOperation operation, int64_t strength, const ImageSize& size);

// Whether the magnitude is negated at random.
bool IsSigned(ImageOperation operation);

// Changes the image in place. `scratch` has at least as many bytes.
void ApplyImageOperation(ImageOperation operation, double magnitude, const ImageSize& size,
                         std::span<uint8_t> image, std::span<uint8_t> scratch);

}  // namespace plimsoll::data
