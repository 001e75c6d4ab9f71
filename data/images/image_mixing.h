// Mixing of two images into one, as a sample of two labels: mixup (Zhang et al. 2018, "mixup:
// Beyond Empirical Risk Minimization", section 2) and CutMix (Yun et al. 2019, "CutMix:
// Regularization Strategy to Train Strong Classifiers with Localizable Features", section 3.1). H ×
// W image, C channels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/images/image_files.h"
#include "data/sample_random.h"
#include "formats/raster.h"

namespace plimsoll::data {

using ImageBox = formats::RasterBox;

// How one sample is mixed.
struct ImageMix {
  double own_share = 1;         // of its own label; the rest is the partner's
  std::optional<ImageBox> cut;  // CutMix: where the partner's pixels are taken; none: mixup
};

// What training mixes: with α above 0, every sample, the share of its own image drawn from
// Beta(α, α). With both, each sample is mixed in one of the two ways, with probability ½.
struct ImageMixing {
  double mixup = 0, cutmix = 0;  // α; 0: not mixed so

  bool any() const { return mixup > 0 || cutmix > 0; }
  // Call it only if any(). The share of a box is that of the pixels that it really covers.
  ImageMix Draw(const ImageSize& size, SampleRandom& random) const;
};

// Mixes `partner` into `own`, both [H,W,C].
void MixImages(const ImageMix& mix, const ImageSize& size, std::span<float> own,
               std::span<const float> partner);

}  // namespace plimsoll::data
