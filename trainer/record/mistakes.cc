#include "trainer/record/mistakes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "formats/base64.h"

namespace plimsoll::trainer {
namespace {

// exp(largest) / Σ exp: the largest probability of the softmax.
double LargestShare(std::span<const float> logits, float largest) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return 1 / sum;
}

// Scales an image down: means over the pixels that fall into each smaller pixel, then stretched so
// that the least becomes 0 and the largest 255. `image`: [height, width, channels].
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

// A mistake that some rank has found.
struct Found {
  double share = 0;
  int64_t sample = 0;
  int rank = 0;
};

// The most confident mistakes in the lists of all ranks, [[share, sample], …]. Each mistake appears
// once, because ranks that share a model's tensors see the same samples.
std::vector<Found> SurestOf(const std::vector<std::string>& by_rank) {
  std::vector<Found> all;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const nlohmann::json& one : nlohmann::json::parse(by_rank[rank])) {
      all.push_back({one[0], one[1], static_cast<int>(rank)});
    }
  }
  std::ranges::sort(all, [](const Found& a, const Found& b) {
    return std::tuple(-a.share, a.sample, a.rank) < std::tuple(-b.share, b.sample, b.rank);
  });
  std::set<int64_t> seen;
  std::erase_if(all, [&](const Found& found) { return !seen.insert(found.sample).second; });
  all.resize(std::min(all.size(), Mistakes::kMost));
  return all;
}

}  // namespace

void Mistakes::Add(Session& session, int64_t first) {
  const Slot* const images = session.FindSlot("images");
  const Slot* const labels = session.FindSlot("labels");
  if (images == nullptr || labels == nullptr || !session.Carries(kClassLogits)) return;
  if (labels->type.shape.rank() != 1) return;
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
    if (!std::isfinite(share)) continue;
    if (worst_.size() == kMost && share <= worst_.back().share) continue;
    const int64_t larger = std::max(height, width), side = std::min(larger, kSide);
    Image image = {.sample = first + static_cast<int64_t>(row),
                   .label = label,
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
    images.push_back({{"sample", image.sample},
                      {"label", image.label},
                      {"prediction", image.prediction},
                      {"share", image.share},
                      {"width", image.width},
                      {"height", image.height},
                      {"pixels", formats::Base64(image.pixels)}});
  }
  return images;
}

// First agrees on the mistakes to keep, then gathers only their pictures, because all ranks receive
// what one rank sends.
nlohmann::ordered_json Mistakes::Gather(Ranks& ranks) const {
  if (ranks.size() == 1) return Json();
  nlohmann::json own = nlohmann::json::array();
  for (const Image& image : worst_) own.push_back({image.share, image.sample});
  const std::vector<Found> surest = SurestOf(ranks.Gather(own.dump()));

  nlohmann::ordered_json given = nlohmann::ordered_json::array();
  for (nlohmann::ordered_json& image : Json()) {
    const bool wanted = std::ranges::any_of(surest, [&](const Found& found) {
      return found.rank == ranks.rank() && found.sample == image.at("sample");
    });
    if (wanted) given.push_back(std::move(image));
  }
  const std::vector<std::string> by_rank = ranks.Gather(given.dump());
  // Each rank's remaining mistakes, in the order of `surest`.
  std::vector<nlohmann::ordered_json> left;
  for (const std::string& text : by_rank) left.push_back(nlohmann::ordered_json::parse(text));
  std::vector<size_t> next(left.size());
  nlohmann::ordered_json images = nlohmann::ordered_json::array();
  for (const Found& found : surest) {
    const auto rank = static_cast<size_t>(found.rank);
    images.push_back(std::move(left[rank].at(next[rank]++)));
  }
  return images;
}

}  // namespace plimsoll::trainer
