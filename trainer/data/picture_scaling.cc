#include "trainer/data/picture_scaling.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plimsoll::data {
namespace {

// The weights of the pixels [first, first + weights.size()) of a line; their sum is 1.
struct Window {
  int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Window> WindowsOf(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);  // half of the triangle's width
  std::vector<Window> windows;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    Window window;
    window.first = std::max<int64_t>(0, std::llround(centre - reach));
    const int64_t end = std::min(from, std::max<int64_t>(std::llround(centre + reach), 1));
    std::vector<double> shares;
    double sum = 0;
    for (int64_t k = window.first; k < end; ++k) {
      const double distance = std::abs(static_cast<double>(k) + 0.5 - centre) / reach;
      shares.push_back(std::max(0.0, 1 - distance));
      sum += shares.back();
    }
    for (const double share : shares) {
      window.weights.push_back(static_cast<float>(share / sum));
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace

std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size, int64_t height,
                             int64_t width) {
  const int64_t c = size.channels;
  const std::vector<Window> across = WindowsOf(size.width, width);
  std::vector<float> narrow(static_cast<size_t>(size.height * width * c));  // [h,W,C]
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const Window& window = across[static_cast<size_t>(x)];
      for (int64_t channel = 0; channel < c; ++channel) {
        float sum = 0;
        for (size_t k = 0; k < window.weights.size(); ++k) {
          const int64_t at =
              (y * size.width + window.first + static_cast<int64_t>(k)) * c + channel;
          sum += window.weights[k] * pixels[static_cast<size_t>(at)];
        }
        narrow[static_cast<size_t>((y * width + x) * c + channel)] = sum;
      }
    }
  }
  const std::vector<Window> down = WindowsOf(size.height, height);
  std::vector<uint8_t> result(static_cast<size_t>(height * width * c));
  for (int64_t y = 0; y < height; ++y) {
    const Window& window = down[static_cast<size_t>(y)];
    for (int64_t i = 0; i < width * c; ++i) {
      float sum = 0;
      for (size_t k = 0; k < window.weights.size(); ++k) {
        const int64_t row = window.first + static_cast<int64_t>(k);
        sum += window.weights[k] * narrow[static_cast<size_t>(row * width * c + i)];
      }
      result[static_cast<size_t>(y * width * c + i)] =
          static_cast<uint8_t>(std::lround(std::clamp(sum, 0.0f, 255.0f)));
    }
  }
  return result;
}

std::vector<uint8_t> WithChannels(std::span<const uint8_t> pixels, const ImageSize& size,
                                  int64_t channels) {
  if (channels == size.channels) return {pixels.begin(), pixels.end()};
  std::vector<uint8_t> result;
  if (size.channels == 1 && channels == 3) {
    for (const uint8_t grey : pixels) result.insert(result.end(), 3, grey);
    return result;
  }
  if (size.channels != 3 || channels != 1) throw InternalError("pictures of other channels");
  for (size_t i = 0; i < pixels.size(); i += 3) {
    // Pillow's integers: 16 bits after the point, rounded.
    const uint32_t grey = pixels[i] * 19595u + pixels[i + 1] * 38470u + pixels[i + 2] * 7471u;
    result.push_back(static_cast<uint8_t>((grey + 0x8000u) >> 16));
  }
  return result;
}

}  // namespace plimsoll::data
