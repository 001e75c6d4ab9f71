#include "data/images/image_augmentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace plimsoll::data {
namespace {

// Random numbers of a sample.
constexpr uint64_t kTop = 0, kLeft = 1, kFlip = 2, kOperations = 3, kErasing = 4, kColours = 5;

// Of random erasing: the part of the image, height by width, and how often to try.
constexpr double kLeastPart = 0.02, kMostPart = 0.33, kLeastRatio = 0.3, kMostRatio = 3.3;
constexpr int kTries = 10;

// Calls emit(channel, byte) for the canvas' bytes in their order.
template <typename Emit>
void ForCanvas(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
               const ImageSize& canvas, const Emit& emit) {
  const int64_t channels = image.channels;
  for (int64_t y = 0; y < canvas.height; ++y) {
    const int64_t row = y - placement.top;
    for (int64_t x = 0; x < canvas.width; ++x) {
      const int64_t column = (placement.flipped ? canvas.width - 1 - x : x) - placement.left;
      const bool covered = row >= 0 && row < image.height && column >= 0 && column < image.width;
      const uint8_t* const from =
          covered ? pixels.data() + (row * image.width + column) * channels : nullptr;
      for (int64_t c = 0; c < channels; ++c) emit(c, from == nullptr ? uint8_t{0} : from[c]);
    }
  }
}

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

void Augmentation::Change(uint64_t seed, int64_t sample, const ImageSize& canvas,
                          std::span<uint8_t> bytes, std::span<uint8_t> scratch) const {
  if (jitter.any()) {
    SampleRandom random(seed, sample, kColours);
    jitter.Change(random, canvas, bytes, scratch);
  }
  SampleRandom random(seed, sample, kOperations);
  for (int64_t i = 0; i < operations; ++i) {
    const auto operation = static_cast<ImageOperation>(random.Below(kImageOperations));
    const double magnitude = MagnitudeOf(operation, strength, canvas);
    const bool negated = IsSigned(operation) && random.Below(2) == 1;
    ApplyImageOperation(operation, negated ? -magnitude : magnitude, canvas, bytes, scratch);
  }
}

std::optional<ImageBox> Augmentation::DrawErasing(uint64_t seed, int64_t sample,
                                                  const ImageSize& canvas) const {
  SampleRandom random(seed, sample, kErasing);
  if (random.Uniform() >= erase_probability) return std::nullopt;
  const auto pixels = static_cast<double>(canvas.height * canvas.width);
  for (int i = 0; i < kTries; ++i) {
    const double area = pixels * random.Uniform(kLeastPart, kMostPart);
    const double ratio = std::exp(random.Uniform(std::log(kLeastRatio), std::log(kMostRatio)));
    const int64_t height = std::llround(std::sqrt(area * ratio));
    const int64_t width = std::llround(std::sqrt(area / ratio));
    if (height >= canvas.height || width >= canvas.width) continue;
    const int64_t top = random.Below(canvas.height - height + 1);
    return ImageBox{top, random.Below(canvas.width - width + 1), height, width};
  }
  return std::nullopt;
}

void Augmentation::Erase(uint64_t seed, int64_t sample, const ImageSize& canvas,
                         std::span<float> values) const {
  if (erase_probability == 0) return;
  if (const auto box = DrawErasing(seed, sample, canvas)) EraseBox(*box, canvas, values);
}

std::string Augmentation::ChangesText() const {
  std::string text;
  if (flip) text += "  flipped with probability 1/2\n";
  if (jitter.any()) {
    text += fmt::format(
        "  brightness, contrast and saturation changed by up to {:.4g}, {:.4g} and {:.4g}, the hue "
        "by {:.4g}\n",
        jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue);
  }
  if (operations > 0) {
    text += fmt::format("  changed by {} operations of strength {} of {}\n", operations, strength,
                        kStrengths - 1);
  }
  if (erase_probability > 0) {
    text += fmt::format("  partly erased with probability {:.4g}\n", erase_probability);
  }
  return text;
}

void DrawImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
               const NormalisedBytes& normalised, const ImageSize& canvas, std::span<float> out) {
  float* to = out.data();
  ForCanvas(pixels, image, placement, canvas,
            [&](int64_t channel, uint8_t byte) { *to++ = normalised(channel, byte); });
}

void PlaceImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
                const ImageSize& canvas, std::span<uint8_t> out) {
  uint8_t* to = out.data();
  ForCanvas(pixels, image, placement, canvas,
            [&](int64_t /*channel*/, uint8_t byte) { *to++ = byte; });
}

void EraseBox(const ImageBox& box, const ImageSize& canvas, std::span<float> values) {
  for (int64_t row = box.top; row < box.top + box.height; ++row) {
    const int64_t first = (row * canvas.width + box.left) * canvas.channels;
    std::fill_n(values.begin() + first, box.width * canvas.channels, 0.0f);
  }
}

}  // namespace plimsoll::data
