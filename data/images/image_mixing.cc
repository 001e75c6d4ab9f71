#include "data/images/image_mixing.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::data {
namespace {

// Draws a box around a random pixel. Its area is about `part` of the image, before it is cut off at
// the image's edges.
ImageBox DrawBox(double part, const ImageSize& size, SampleRandom& random) {
  const auto range = [&](int64_t length, int64_t& first, int64_t& count) {
    const auto half = static_cast<int64_t>(static_cast<double>(length) * std::sqrt(part)) / 2;
    const int64_t middle = random.Below(length);
    first = std::max<int64_t>(0, middle - half);
    count = std::min(length, middle + half) - first;
  };
  ImageBox box;
  range(size.height, box.top, box.height);
  range(size.width, box.left, box.width);
  return box;
}

}  // namespace

ImageMix ImageMixing::Draw(const ImageSize& size, SampleRandom& random) const {
  const bool cuts = cutmix > 0 && (mixup == 0 || random.Below(2) == 1);
  const double share = random.Beta(cuts ? cutmix : mixup);
  if (!cuts) return {.own_share = share, .cut = {}};
  const ImageBox box = DrawBox(1 - share, size, random);
  const double covered =
      static_cast<double>(box.height * box.width) / static_cast<double>(size.height * size.width);
  return {.own_share = 1 - covered, .cut = box};
}

void MixImages(const ImageMix& mix, const ImageSize& size, std::span<float> own,
               std::span<const float> partner) {
  if (!mix.cut) {
    const auto share = static_cast<float>(mix.own_share);
    for (size_t i = 0; i < own.size(); ++i) own[i] = share * own[i] + (1 - share) * partner[i];
    return;
  }
  const ImageBox& box = *mix.cut;
  for (int64_t row = box.top; row < box.top + box.height; ++row) {
    const auto first = static_cast<size_t>((row * size.width + box.left) * size.channels);
    const auto count = static_cast<size_t>(box.width * size.channels);
    std::ranges::copy(partner.subspan(first, count), own.begin() + static_cast<int64_t>(first));
  }
}

}  // namespace plimsoll::data
