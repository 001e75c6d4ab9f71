// Mixing of two images into one sample with two labels: mixup (Zhang et al. 2018, "mixup: Beyond
// Empirical Risk Minimization", section 2) and CutMix (Yun et al. 2019, "CutMix: Regularization
// Strategy to Train Strong Classifiers with Localizable Features", section 3.1). H × W image, C
// channels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/images/image_files.h"
#include "data/sample_random.h"
#include "formats/raster.h"

namespace plimsoll::data {

using ImageBox = formats::RasterBox;

// How one sample is mixed with another, its partner.
struct ImageMix {
  double own_share = 1;         // the weight of the sample's own label; the rest is the partner's
  std::optional<ImageBox> cut;  // CutMix: the box of the partner's pixels; nullopt: mixup
};

// The mixing of training samples. With α above 0, every sample is mixed, and the share of its own
// image is drawn from Beta(α, α). If both kinds are enabled, each sample uses one of them, with
// probability ½.
struct ImageMixing {
  double mixup = 0, cutmix = 0;  // α of each kind; 0 disables it

  bool any() const { return mixup > 0 || cutmix > 0; }
  // Draws the mix of one sample; requires any(). In CutMix the share is computed from the pixels
  // that the box really covers.
  ImageMix Draw(const ImageSize& size, SampleRandom& random) const;
};

// Mixes the image `partner` into `own`, both [H,W,C].
void MixImages(const ImageMix& mix, const ImageSize& size, std::span<float> own,
               std::span<const float> partner);

}  // namespace plimsoll::data
