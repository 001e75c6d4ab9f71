#include "trainer/record/mistakes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

namespace plimsoll::trainer {
namespace {

const Slot* FindSlot(const Session& session, std::string_view name) {
  const std::span<const Slot> slots = session.slots();
  const auto found = std::ranges::find(slots, name, &Slot::name);
  return found == slots.end() ? nullptr : &*found;
}

// exp(largest) / Σ exp: the softmax's largest value.
double LargestShare(std::span<const float> logits, float largest) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return 1 / sum;
}

// RFC 4648, section 4.
std::string Base64(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      const bool pads = i + k > bytes.size();
      text += pads ? '=' : kDigits[three >> (18 - 6 * k) & 63u];
    }
  }
  return text;
}

// Means over the pixels that fall into each pixel of the smaller image, stretched from the least
// value to 0 and from the largest to 255. `image`: [height, width, channels].
std::vector<uint8_t> SmallImage(std::span<const float> image, int64_t height, int64_t width,
                                int64_t channels, int64_t to_height, int64_t to_width) {
  std::vector<float> means;
  for (int64_t y = 0; y < to_height; ++y) {
    for (int64_t x = 0; x < to_width; ++x) {
      const int64_t top = y * height / to_height, bottom = (y + 1) * height / to_height;
      const int64_t left = x * width / to_width, right = (x + 1) * width / to_width;
      for (int64_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (int64_t i = top; i < bottom; ++i) {
          for (int64_t j = left; j < right; ++j) {
            sum += image[static_cast<size_t>((i * width + j) * channels + c % channels)];
          }
        }
        const auto count = static_cast<double>((bottom - top) * (right - left));
        means.push_back(static_cast<float>(sum / count));
      }
    }
  }
  const auto [least, most] = std::ranges::minmax(means);
  const float scale = most > least ? 255 / (most - least) : 0;
  std::vector<uint8_t> bytes;
  for (const float mean : means) {
    bytes.push_back(static_cast<uint8_t>(std::lround((mean - least) * scale)));
  }
  return bytes;
}

}  // namespace

void Mistakes::Add(Session& session) {
  const Slot* const images = FindSlot(session, "images");
  const Slot* const labels = FindSlot(session, "labels");
  if (images == nullptr || labels == nullptr || !session.Carries(kClassLogits)) return;
  const graph::Shape& shape = images->type.shape;
  if (shape.rank() != 4 || (shape.dim(3) != 1 && shape.dim(3) != 3)) return;
  const int64_t height = shape.dim(1), width = shape.dim(2), channels = shape.dim(3);
  const std::vector<float> logits = session.Read<float>(kClassLogits);
  const size_t rows = labels->values<int32_t>().size(), classes = logits.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    const int64_t label = labels->values<int32_t>()[row];
    const auto of_row = std::span(logits).subspan(row * classes, classes);
    const auto largest = std::ranges::max_element(of_row);
    const int64_t prediction = largest - of_row.begin();
    if (label < 0 || prediction == label || !std::isfinite(*largest)) continue;
    const double share = LargestShare(of_row, *largest);
    if (worst_.size() == kMost && share <= worst_.back().share) continue;
    const int64_t larger = std::max(height, width), side = std::min(larger, kSide);
    Image image = {.label = label,
                   .prediction = prediction,
                   .share = share,
                   .width = std::max<int64_t>(1, width * side / larger),
                   .height = std::max<int64_t>(1, height * side / larger),
                   .pixels = {}};
    const auto pixels = static_cast<size_t>(height * width * channels);
    image.pixels = SmallImage(images->values<float>().subspan(row * pixels, pixels), height, width,
                              channels, image.height, image.width);
    const auto place = std::ranges::upper_bound(worst_, share, std::greater(), &Image::share);
    worst_.insert(place, std::move(image));
    if (worst_.size() > kMost) worst_.pop_back();
  }
}

nlohmann::ordered_json Mistakes::Json() const {
  nlohmann::ordered_json images = nlohmann::ordered_json::array();
  for (const Image& image : worst_) {
    images.push_back({{"label", image.label},
                      {"prediction", image.prediction},
                      {"share", image.share},
                      {"width", image.width},
                      {"height", image.height},
                      {"pixels", Base64(image.pixels)}});
  }
  return images;
}

}  // namespace plimsoll::trainer
