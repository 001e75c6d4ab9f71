#include "data/images/image_augmentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/amounts.h"
#include "base/random.h"

namespace plimsoll::data {
namespace {

constexpr int kCropTries = 10;

struct Hsv {
  uint8_t hue = 0, saturation = 0, value = 0;
};

// Converts a pixel to HSV, as Pillow's rgb2hsv does, with the same types: float, and double where
// Pillow has constants of type double.
Hsv HsvOf(const uint8_t* pixel) {
  const uint8_t red = pixel[0], green = pixel[1], blue = pixel[2];
  const uint8_t most = std::max({red, green, blue}), least = std::min({red, green, blue});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const auto below = [&](uint8_t channel) { return static_cast<float>(most - channel) / range; };
  float hue = 0;
  if (red == most) {
    hue = below(blue) - below(green);
  } else if (green == most) {
    hue = static_cast<float>(2.0 + below(red) - below(blue));
  } else {
    hue = static_cast<float>(4.0 + below(green) - below(red));
  }
  hue = static_cast<float>(std::fmod(hue / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(most);
  return {static_cast<uint8_t>(hue * 255.0), static_cast<uint8_t>(saturation * 255.0), most};
}

// Converts a pixel from HSV to RGB, as Pillow's hsv2rgb does.
void WriteRgb(const Hsv& from, uint8_t* pixel) {
  if (from.saturation == 0) {
    std::fill_n(pixel, 3, from.value);
    return;
  }
  const auto sector = static_cast<float>(from.hue * 6.0 / 255.0);
  const auto saturation = static_cast<float>(from.saturation / 255.0);
  const auto floor = static_cast<int>(std::floor(sector));
  const float part = sector - static_cast<float>(floor);
  const auto darker = [&](double share) {
    return static_cast<uint8_t>(std::lround(from.value * (1.0 - share)));
  };
  const uint8_t v = from.value, p = darker(saturation), q = darker(saturation * part),
                t = darker(saturation * (1.0 - part));
  constexpr int kSectors = 6;
  const std::array<std::array<uint8_t, 3>, kSectors> colours = {
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::ranges::copy(colours[static_cast<size_t>(floor % kSectors)], pixel);
}

// Each random decision about a sample has its own number.
constexpr uint64_t kTop = 0, kLeft = 1, kFlip = 2, kOperations = 3, kErasing = 4, kColours = 5;

// Random erasing: the range of the erased fraction of the image, the range of height / width, and
// the number of tries.
constexpr double kLeastPart = 0.02, kMostPart = 0.33, kLeastRatio = 0.3, kMostRatio = 3.3;
constexpr int kTries = 10;

// The part of a canvas row that an image covers: the pixels [first, end). `column` is the image's
// column at `first`. Columns then increase, or decrease if the canvas is mirrored.
struct CoveredRow {
  CoveredRow(const ImageSize& image, const Placement& placement, const ImageSize& canvas) {
    const int64_t left = std::clamp<int64_t>(placement.left, 0, canvas.width);
    const int64_t right = std::clamp<int64_t>(placement.left + image.width, left, canvas.width);
    first = placement.flipped ? canvas.width - right : left;
    end = first + right - left;
    column = (placement.flipped ? right - 1 : left) - placement.left;
  }

  int64_t first = 0, end = 0, column = 0;
};

// Writes the canvas byte by byte: value(channel, byte) converts each byte. `channels` may be a
// compile-time constant.
template <typename Channels, typename Number, typename Value>
void FillCanvas(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
                const ImageSize& canvas, Channels channels, const Value& value, Number* to) {
  const CoveredRow covered(image, placement, canvas);
  const auto fill_zeros = [&](int64_t count) {
    for (int64_t x = 0; x < count; ++x) {
      for (int64_t c = 0; c < channels; ++c) *to++ = value(c, 0);
    }
  };
  const int64_t step = placement.flipped ? -channels : channels;
  for (int64_t y = 0; y < canvas.height; ++y) {
    const int64_t row = y - placement.top;
    if (row < 0 || row >= image.height) {
      fill_zeros(canvas.width);
      continue;
    }
    fill_zeros(covered.first);
    const uint8_t* from = pixels.data() + (row * image.width + covered.column) * channels;
    for (int64_t x = covered.first; x < covered.end; ++x, from += step) {
      for (int64_t c = 0; c < channels; ++c) *to++ = value(c, from[c]);
    }
    fill_zeros(canvas.width - covered.end);
  }
}

template <typename Number, typename Value>
void FillCanvas(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
                const ImageSize& canvas, const Value& value, Number* to) {
  const auto fill = [&](auto channels) {
    FillCanvas(pixels, image, placement, canvas, channels, value, to);
  };
  if (image.channels == 3) return fill(std::integral_constant<int64_t, 3>());
  fill(image.channels);
}

}  // namespace

ImageBox ResizedCrop::Draw(const ImageSize& image, SampleRandom& random) const {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  for (int i = 0; i < kCropTries; ++i) {
    const double area = height * width * random.Uniform(scale[0], scale[1]);
    const double sides = std::exp(random.Uniform(std::log(ratio[0]), std::log(ratio[1])));
    const int64_t columns = std::llround(std::sqrt(area * sides));
    const int64_t rows = std::llround(std::sqrt(area / sides));
    if (columns < 1 || rows < 1 || columns > image.width || rows > image.height) continue;
    const int64_t top = random.Below(image.height - rows + 1);
    return {top, random.Below(image.width - columns + 1), rows, columns};
  }
  const double sides = std::clamp(width / height, ratio[0], ratio[1]);
  const int64_t rows =
      std::clamp<int64_t>(std::llround(std::min(height, width / sides)), 1, image.height);
  const int64_t columns =
      std::clamp<int64_t>(std::llround(std::min(width, height * sides)), 1, image.width);
  return {(image.height - rows) / 2, (image.width - columns) / 2, rows, columns};
}

void ColourJitter::Change(SampleRandom& random, const ImageSize& size, std::span<uint8_t> image,
                          std::span<uint8_t> scratch) const {
  // Every factor is drawn, even if unused, so that one change does not depend on which others are
  // enabled.
  const double brighter = random.Uniform(-brightness, brightness);
  const double starker = random.Uniform(-contrast, contrast);
  const double richer = random.Uniform(-saturation, saturation);
  const double turn = random.Uniform(-hue, hue);
  std::array<int, 4> order = {0, 1, 2, 3};
  for (size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<size_t>(random.Below(static_cast<int64_t>(i) + 1))]);
  }
  const auto apply = [&](ImageOperation operation, double most, double change) {
    if (most == 0) return;
    ApplyImageOperation(operation, std::max(change, -1.0), size, image, scratch);
  };
  for (const int next : order) {
    if (next == 0) apply(ImageOperation::kBrightness, brightness, brighter);
    if (next == 1) apply(ImageOperation::kContrast, contrast, starker);
    if (next == 2) apply(ImageOperation::kSaturation, saturation, richer);
    if (next == 3 && hue > 0) TurnHue(turn, size.channels, image);
  }
}

void TurnHue(double turn, int64_t channels, std::span<uint8_t> image) {
  if (channels != 3) return;
  // A hue is an angle in units of 1/256 of the circle.
  const auto steps = static_cast<uint8_t>(static_cast<int>(turn * 255));
  for (size_t i = 0; i < image.size(); i += 3) {
    Hsv pixel = HsvOf(image.data() + i);
    pixel.hue = static_cast<uint8_t>(pixel.hue + steps);
    WriteRgb(pixel, image.data() + i);
  }
}

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
    text += fmt::format("  changed by {} of strength {} of {}\n", Counted(operations, "operation"),
                        strength, kStrengths - 1);
  }
  if (erase_probability > 0) {
    text += fmt::format("  partly erased with probability {:.4g}\n", erase_probability);
  }
  return text;
}

void DrawImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
               const NormalisedBytes& normalised, const ImageSize& canvas, std::span<float> out) {
  FillCanvas(
      pixels, image, placement, canvas,
      [&](int64_t channel, uint8_t byte) { return normalised(channel, byte); }, out.data());
}

void PlaceImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
                const ImageSize& canvas, std::span<uint8_t> out) {
  FillCanvas(
      pixels, image, placement, canvas, [](int64_t /*channel*/, uint8_t byte) { return byte; },
      out.data());
}

void EraseBox(const ImageBox& box, const ImageSize& canvas, std::span<float> values) {
  for (int64_t row = box.top; row < box.top + box.height; ++row) {
    const int64_t first = (row * canvas.width + box.left) * canvas.channels;
    std::fill_n(values.begin() + first, box.width * canvas.channels, 0.0f);
  }
}

}  // namespace plimsoll::data
