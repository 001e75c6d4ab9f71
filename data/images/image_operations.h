// The operations of RandAugment on 8-bit images: Cubuk et al. 2020, "RandAugment: Practical
// automated data augmentation with a reduced search space", section 3, with the operations,
// strengths and roundings of torchvision's RandAugment on byte tensors.
//
// H height, W width, C channels; images are [H,W,C]. An image has colours only if it has three
// channels; otherwise kSaturation does nothing, and kContrast uses the mean of all bytes.
#pragma once

#include <cstdint>
#include <span>

#include "data/images/image_files.h"

namespace plimsoll::data {

enum class ImageOperation {
  kIdentity,
  kShearX,  // geometry: nearest-neighbour sampling, zeros outside
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,  // blends with another image, and truncates the fraction
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

// The operation's parameter at that strength: an angle in degrees, a shift in pixels, an addend to
// the factor 1, a number of bits to keep, or a threshold. 0 for operations without a parameter.
double MagnitudeOf(ImageOperation operation, int64_t strength, const ImageSize& size);

// Whether the magnitude is negated at random.
bool IsSigned(ImageOperation operation);

// Changes the image in place. `scratch` must be at least as large as the image.
void ApplyImageOperation(ImageOperation operation, double magnitude, const ImageSize& size,
                         std::span<uint8_t> image, std::span<uint8_t> scratch);

}  // namespace plimsoll::data
