#include "trainer/data/image_augmentation.h"

#include <algorithm>

#include "base/random.h"

namespace plimsoll::data {
namespace {

// Random numbers of a sample.
constexpr uint64_t kTop = 0, kLeft = 1, kFlip = 2;

}  // namespace

Placement Augmentation::Draw(const Placement& centred, uint64_t seed, int64_t sample) const {
  const auto below = [&](uint64_t purpose, int64_t bound) {
    const uint64_t random = Hash(seed, static_cast<uint64_t>(sample), purpose);
    return static_cast<int64_t>(Below(random, static_cast<uint64_t>(bound)));
  };
  const int64_t shifts = 2 * crop_padding + 1;
  Placement drawn = centred;
  drawn.top += crop_padding - below(kTop, shifts);
  drawn.left += crop_padding - below(kLeft, shifts);
  drawn.flipped = flip && below(kFlip, 2) == 1;
  return drawn;
}

Placement Centred(const ImageSize& image, const ImageSize& canvas) {
  return {.top = (canvas.height - image.height) / 2, .left = (canvas.width - image.width) / 2};
}

void DrawImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
               const NormalisedBytes& normalised, const ImageSize& canvas, std::span<float> out) {
  const int64_t channels = image.channels;
  float* to = out.data();
  for (int64_t y = 0; y < canvas.height; ++y) {
    const int64_t row = y - placement.top;
    for (int64_t x = 0; x < canvas.width; ++x) {
      const int64_t column = (placement.flipped ? canvas.width - 1 - x : x) - placement.left;
      const bool covered = row >= 0 && row < image.height && column >= 0 && column < image.width;
      const uint8_t* const from =
          covered ? pixels.data() + (row * image.width + column) * channels : nullptr;
      for (int64_t c = 0; c < channels; ++c) {
        *to++ = normalised(c, from == nullptr ? uint8_t{0} : from[c]);
      }
    }
  }
}

}  // namespace plimsoll::data
