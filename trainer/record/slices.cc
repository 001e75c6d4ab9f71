#include "trainer/record/slices.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "formats/png.h"

namespace plimsoll::trainer {
namespace {

using Colour = std::array<int, 3>;  // red, green, blue

constexpr std::array<Colour, 6> kPalette = {
    {{255, 0, 0}, {0, 200, 0}, {0, 90, 255}, {255, 230, 0}, {255, 0, 255}, {0, 230, 230}}};

// A slice's image, labels and prediction, each [H,W]. `prediction` holds class numbers.
struct Plane {
  int64_t height = 0, width = 0;
  std::vector<float> image = {};
  std::vector<int32_t> label = {}, prediction = {};
};

// The first voxel of the slice with the most labels above 0; without such labels, of the middle
// slice.
size_t FullestSlice(std::span<const int32_t> labels, size_t slice) {
  size_t fullest = labels.size() / slice / 2 * slice;
  int64_t most = 0;
  for (size_t begin = 0; begin < labels.size(); begin += slice) {
    const auto foreground = std::ranges::count_if(labels.subspan(begin, slice),
                                                  [](int32_t label) { return label > 0; });
    if (foreground <= most) continue;
    most = foreground;
    fullest = begin;
  }
  return fullest;
}

// Blends a pixel with its class's colour, half and half. Pixels of class 0 or without a label stay
// grey.
void AppendPixel(int grey, int32_t of_class, std::vector<uint8_t>& pixels) {
  for (size_t c = 0; c < 3; ++c) {
    const int colour =
        of_class > 0 ? kPalette[static_cast<size_t>(of_class - 1) % kPalette.size()][c] : grey;
    pixels.push_back(static_cast<uint8_t>((grey + colour) / 2));
  }
}

std::vector<uint8_t> Draw(const Plane& plane) {
  const int64_t larger = std::max(plane.height, plane.width);
  const int64_t height = std::max<int64_t>(1, plane.height * Slices::kSide / larger);
  const int64_t width = std::max<int64_t>(1, plane.width * Slices::kSide / larger);
  const auto [least, most] = std::ranges::minmax(plane.image);
  const float scale = most > least ? 255 / (most - least) : 0;
  const std::vector<int32_t> no_classes(plane.image.size());
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < height; ++y) {
    for (const std::vector<int32_t>* classes : {&no_classes, &plane.label, &plane.prediction}) {
      for (int64_t x = 0; x < width; ++x) {
        const auto pixel =
            static_cast<size_t>(y * plane.height / height * plane.width + x * plane.width / width);
        AppendPixel(static_cast<int>((plane.image[pixel] - least) * scale), (*classes)[pixel],
                    pixels);
      }
    }
  }
  return formats::EncodePng(3 * width, height, pixels);
}

}  // namespace

void Slices::Add(Session& session, int64_t first) {
  const Slot* const images = session.FindSlot("images");
  const Slot* const labels = session.FindSlot("labels");
  if (first >= kMost || images == nullptr || labels == nullptr) return;
  const graph::Shape& shape = images->type.shape;
  if (shape.rank() < 4 || shape.rank() > 5 || labels->type.shape != shape.DropLast()) return;
  if (!session.Carries(kClassLogits)) return;
  const std::vector<float> logits = session.Read<float>(kClassLogits);
  const std::span<const int32_t> all_labels = labels->values<int32_t>();
  const auto rows = static_cast<size_t>(shape.dim(0));
  const auto channels = static_cast<size_t>(shape.dim(-1));
  const size_t voxels = all_labels.size() / rows, classes = logits.size() / all_labels.size();
  const auto slice = static_cast<size_t>(shape.dim(-3) * shape.dim(-2));
  for (size_t row = 0; row < rows && first + static_cast<int64_t>(row) < kMost; ++row) {
    const std::span<const int32_t> of_row = all_labels.subspan(row * voxels, voxels);
    // This row only fills up the last batch.
    if (std::ranges::all_of(of_row, [](int32_t label) { return label < 0; })) continue;
    Plane plane = {.height = shape.dim(-3), .width = shape.dim(-2)};
    const size_t begin = row * voxels + FullestSlice(of_row, slice);
    for (size_t i = begin; i < begin + slice; ++i) {
      plane.image.push_back(images->values<float>()[i * channels]);
      plane.label.push_back(all_labels[i]);
      const auto of_voxel = std::span(logits).subspan(i * classes, classes);
      plane.prediction.push_back(
          static_cast<int32_t>(std::ranges::max_element(of_voxel) - of_voxel.begin()));
    }
    own_[first + static_cast<int64_t>(row)] = Draw(plane);
  }
}

SlicePictures Slices::Gather(Ranks& ranks) const {
  if (ranks.size() == 1) return own_;
  nlohmann::json given = nlohmann::json::array();
  for (const auto& [sample, png] : own_) given.push_back({sample, nlohmann::json::binary(png)});
  const std::vector<uint8_t> bytes = nlohmann::json::to_msgpack(given);
  SlicePictures pictures;
  for (const std::string& text :
       ranks.Gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    for (const nlohmann::json& one : nlohmann::json::from_msgpack(text)) {
      pictures[one[0]] = one[1].get_binary();
    }
  }
  return pictures;
}

}  // namespace plimsoll::trainer
