#include "data/images/colour_jitter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/images/image_operations.h"

namespace plimsoll::data {
namespace {

struct Hsv {
  uint8_t hue = 0, saturation = 0, value = 0;
};

// Pillow's rgb2hsv, in its types: floats, with doubles where it has constants of double.
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

// Pillow's hsv2rgb.
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

}  // namespace

void ColourJitter::Change(SampleRandom& random, const ImageSize& size, std::span<uint8_t> image,
                          std::span<uint8_t> scratch) const {
  // All is drawn whether it is used or not: each change is the same beside any others.
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
  // Of 256 steps, around the circle.
  const auto steps = static_cast<uint8_t>(static_cast<int>(turn * 255));
  for (size_t i = 0; i < image.size(); i += 3) {
    Hsv pixel = HsvOf(image.data() + i);
    pixel.hue = static_cast<uint8_t>(pixel.hue + steps);
    WriteRgb(pixel, image.data() + i);
  }
}

}  // namespace plimsoll::data
