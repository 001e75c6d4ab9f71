#include "data/images/image_operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace plimsoll::data {
namespace {

constexpr double kMostShear = 0.3, kMostShift = 150.0 / 331, kMostAngle = 30, kMostFactor = 0.9;
constexpr int kLevels = 256;

// An affine operation: pixel (x, y) of the result is read at x' = a·x + b·y + c, y' = d·x + e·y +
// f. x and y are counted from the image's middle.
struct Affine {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

void Resample(const Affine& from, const ImageSize& size, std::span<uint8_t> image,
              std::span<uint8_t> scratch) {
  std::ranges::copy(image, scratch.begin());
  const double middle_x = 0.5 * static_cast<double>(size.width - 1);
  const double middle_y = 0.5 * static_cast<double>(size.height - 1);
  uint8_t* to = image.data();
  for (int64_t row = 0; row < size.height; ++row) {
    const double y = static_cast<double>(row) - middle_y;
    for (int64_t column = 0; column < size.width; ++column, to += size.channels) {
      const double x = static_cast<double>(column) - middle_x;
      // Halves are rounded to even, as in grid_sample.
      const auto at_x =
          static_cast<int64_t>(std::nearbyint(from.a * x + from.b * y + from.c + middle_x));
      const auto at_y =
          static_cast<int64_t>(std::nearbyint(from.d * x + from.e * y + from.f + middle_y));
      const bool inside = at_x >= 0 && at_x < size.width && at_y >= 0 && at_y < size.height;
      const uint8_t* const taken = scratch.data() + (at_y * size.width + at_x) * size.channels;
      for (int64_t channel = 0; channel < size.channels; ++channel) {
        to[channel] = inside ? taken[channel] : 0;
      }
    }
  }
}

// A shear moves each line by `shear` times its distance from the image's first corner, whatever the
// centre of rotations is.
Affine ShearOf(double shear, const ImageSize& size, bool along_x) {
  const auto half = [](int64_t length) { return 0.5 * static_cast<double>(length); };
  Affine from;
  if (along_x) {
    from.b = shear;
    from.c = shear * half(size.height);
  } else {
    from.d = shear;
    from.f = shear * half(size.width);
  }
  return from;
}

Affine RotationOf(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  return {.a = std::cos(angle), .b = -std::sin(angle), .d = std::sin(angle), .e = std::cos(angle)};
}

// Computes factor · byte + (1 − factor) · other in float32. Products are rounded before they are
// added: this file is compiled without fused operations (BUILD).
class Blend {
 public:
  explicit Blend(double factor)
      : own_(static_cast<float>(factor)), other_(static_cast<float>(1 - factor)) {}
  uint8_t operator()(uint8_t byte, float other) const {
    const float sum = own_ * static_cast<float>(byte) + other_ * other;
    return static_cast<uint8_t>(std::clamp(sum, 0.0f, 255.0f));
  }

 private:
  float own_, other_;
};

// torchvision's luma.
uint8_t GreyOf(const uint8_t* pixel) {
  return static_cast<uint8_t>(0.2989f * static_cast<float>(pixel[0]) +
                              0.587f * static_cast<float>(pixel[1]) +
                              0.114f * static_cast<float>(pixel[2]));
}

void Brighten(double factor, std::span<uint8_t> image) {
  const Blend blend(factor);
  for (uint8_t& byte : image) byte = blend(byte, 0);
}

void Saturate(double factor, const ImageSize& size, std::span<uint8_t> image) {
  if (size.channels != 3) return;
  const Blend blend(factor);
  for (size_t i = 0; i < image.size(); i += 3) {
    const auto grey = static_cast<float>(GreyOf(&image[i]));
    for (size_t c = 0; c < 3; ++c) image[i + c] = blend(image[i + c], grey);
  }
}

void Contrast(double factor, const ImageSize& size, std::span<uint8_t> image) {
  int64_t sum = 0, count = 0;
  const size_t step = size.channels == 3 ? 3 : 1;
  for (size_t i = 0; i < image.size(); i += step, ++count) {
    sum += step == 3 ? GreyOf(&image[i]) : image[i];
  }
  const auto mean = static_cast<float>(static_cast<double>(sum) / static_cast<double>(count));
  const Blend blend(factor);
  for (uint8_t& byte : image) byte = blend(byte, mean);
}

// Blends with a smoothed image, whose border pixels are the image's own.
void Sharpen(double factor, const ImageSize& size, std::span<uint8_t> image,
             std::span<uint8_t> scratch) {
  if (size.height <= 2 || size.width <= 2) return;
  std::ranges::copy(image, scratch.begin());
  const Blend blend(factor);
  const int64_t line = size.width * size.channels;
  for (int64_t row = 0; row < size.height; ++row) {
    for (int64_t i = 0; i < line; ++i) {
      const uint8_t* const at = scratch.data() + row * line + i;
      float smooth = *at;
      if (row > 0 && row + 1 < size.height && i >= size.channels && i < line - size.channels) {
        int sum = 4 * *at;  // the middle pixel has weight 5
        for (const int64_t dy : {-line, int64_t{0}, line}) {
          for (const int64_t dx : {-size.channels, int64_t{0}, size.channels}) sum += at[dy + dx];
        }
        smooth = std::nearbyint(static_cast<float>(sum) / 13.0f);
      }
      image[static_cast<size_t>(row * line + i)] = blend(*at, smooth);
    }
  }
}

// Calls body(first, step) for the bytes of each channel: first, first + step, …
template <typename Body>
void ForChannels(const ImageSize& size, const Body& body) {
  for (int64_t c = 0; c < size.channels; ++c) {
    body(static_cast<size_t>(c), static_cast<size_t>(size.channels));
  }
}

// Stretches each channel to the full range of values.
void AutoContrast(const ImageSize& size, std::span<uint8_t> image) {
  ForChannels(size, [&](size_t first, size_t step) {
    uint8_t least = 255, most = 0;
    for (size_t i = first; i < image.size(); i += step) {
      least = std::min(least, image[i]);
      most = std::max(most, image[i]);
    }
    if (least == most) return;
    const float scale = 255.0f / static_cast<float>(most - least);
    for (size_t i = first; i < image.size(); i += step) {
      image[i] = static_cast<uint8_t>(
          std::clamp(static_cast<float>(image[i] - least) * scale, 0.0f, 255.0f));
    }
  });
}

// Equalises the histogram of each channel.
void Equalize(const ImageSize& size, std::span<uint8_t> image) {
  ForChannels(size, [&](size_t first, size_t step) {
    std::array<int64_t, kLevels> counts{};
    for (size_t i = first; i < image.size(); i += step) ++counts[image[i]];
    const int64_t all = size.height * size.width;
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t n) { return n > 0; });
    const int64_t share = (all - *last) / (kLevels - 1);
    if (share == 0) return;
    std::array<uint8_t, kLevels> values{};
    int64_t before = 0;
    for (int level = 0; level < kLevels; ++level) {
      const int64_t value = level == 0 ? 0 : (before + share / 2) / share;
      values[static_cast<size_t>(level)] =
          static_cast<uint8_t>(std::min<int64_t>(value, kLevels - 1));
      before += counts[static_cast<size_t>(level)];
    }
    for (size_t i = first; i < image.size(); i += step) image[i] = values[image[i]];
  });
}

// Number `i` of kStrengths numbers from `first` to `last` in equal steps, in float32, computed from
// the nearer end as PyTorch's linspace does.
double Linspace(double first, double last, int64_t i) {
  const auto from = static_cast<float>(first), to = static_cast<float>(last);
  const float step = (to - from) / static_cast<float>(kStrengths - 1);
  return i < kStrengths / 2 ? from + step * static_cast<float>(i)
                            : to - step * static_cast<float>(kStrengths - 1 - i);
}

}  // namespace

double MagnitudeOf(ImageOperation operation, int64_t strength, const ImageSize& size) {
  switch (operation) {
    case ImageOperation::kShearX:
    case ImageOperation::kShearY:
      return Linspace(0, kMostShear, strength);
    case ImageOperation::kTranslateX:
      return std::trunc(Linspace(0, kMostShift * static_cast<double>(size.width), strength));
    case ImageOperation::kTranslateY:
      return std::trunc(Linspace(0, kMostShift * static_cast<double>(size.height), strength));
    case ImageOperation::kRotate:
      return Linspace(0, kMostAngle, strength);
    case ImageOperation::kBrightness:
    case ImageOperation::kSaturation:
    case ImageOperation::kContrast:
    case ImageOperation::kSharpness:
      return Linspace(0, kMostFactor, strength);
    case ImageOperation::kPosterize:
      return 8 - std::nearbyint(4 * static_cast<double>(strength) /
                                static_cast<double>(kStrengths - 1));
    case ImageOperation::kSolarize:
      return Linspace(255, 0, strength);
    case ImageOperation::kIdentity:
    case ImageOperation::kAutoContrast:
    case ImageOperation::kEqualize:
      break;
  }
  return 0;
}

bool IsSigned(ImageOperation operation) {
  return operation >= ImageOperation::kShearX && operation <= ImageOperation::kSharpness;
}

void ApplyImageOperation(ImageOperation operation, double magnitude, const ImageSize& size,
                         std::span<uint8_t> image, std::span<uint8_t> scratch) {
  switch (operation) {
    case ImageOperation::kIdentity:
      return;
    case ImageOperation::kShearX:
      return Resample(ShearOf(magnitude, size, true), size, image, scratch);
    case ImageOperation::kShearY:
      return Resample(ShearOf(magnitude, size, false), size, image, scratch);
    case ImageOperation::kTranslateX:
      return Resample({.c = -magnitude}, size, image, scratch);
    case ImageOperation::kTranslateY:
      return Resample({.f = -magnitude}, size, image, scratch);
    case ImageOperation::kRotate:
      return Resample(RotationOf(magnitude), size, image, scratch);
    case ImageOperation::kBrightness:
      return Brighten(1 + magnitude, image);
    case ImageOperation::kSaturation:
      return Saturate(1 + magnitude, size, image);
    case ImageOperation::kContrast:
      return Contrast(1 + magnitude, size, image);
    case ImageOperation::kSharpness:
      return Sharpen(1 + magnitude, size, image, scratch);
    case ImageOperation::kPosterize: {
      const auto mask = static_cast<uint8_t>(0xff << (8 - static_cast<int>(magnitude)));
      for (uint8_t& byte : image) byte &= mask;
      return;
    }
    case ImageOperation::kSolarize:
      for (uint8_t& byte : image) {
        if (byte >= magnitude) byte = static_cast<uint8_t>(255 - byte);
      }
      return;
    case ImageOperation::kAutoContrast:
      return AutoContrast(size, image);
    case ImageOperation::kEqualize:
      return Equalize(size, image);
  }
}

}  // namespace plimsoll::data
