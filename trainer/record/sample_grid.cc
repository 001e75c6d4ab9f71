#include "trainer/record/sample_grid.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "formats/png.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kGap = 2;  // pixels between two images

}  // namespace

void SampleGrid::Add(Session& session, int64_t first, int64_t samples) {
  const int64_t end = std::min(kMost, samples);
  if (first >= end || !session.Carries(kMadeImages)) return;
  const graph::Shape shape = session.ShapeOf(kMadeImages);
  if (shape.rank() != 4 || (shape.dim(3) != 1 && shape.dim(3) != 3)) return;
  height_ = shape.dim(1);
  width_ = shape.dim(2);
  channels_ = shape.dim(3);
  const std::vector<float> made = session.Read<float>(kMadeImages);
  const auto each = static_cast<size_t>(height_ * width_ * channels_);
  for (int64_t row = 0; row < shape.dim(0) && first + row < end; ++row) {
    const auto image = std::span(made).subspan(static_cast<size_t>(row) * each, each);
    std::vector<uint8_t>& pixels = images_[first + row];
    pixels.resize(each);
    std::ranges::transform(image, pixels.begin(), &Brightness);
  }
}

void SampleGrid::Gather(Ranks& ranks) {
  if (ranks.size() == 1) return;
  nlohmann::json own = {{"shape", {height_, width_, channels_}},
                        {"images", nlohmann::json::array()}};
  for (const auto& [sample, pixels] : images_) {
    own["images"].push_back({sample, nlohmann::json::binary(pixels)});
  }
  const std::vector<uint8_t> bytes = nlohmann::json::to_msgpack(own);
  for (const std::string& text :
       ranks.Gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    const nlohmann::json given = nlohmann::json::from_msgpack(text);
    if (given["images"].empty()) continue;
    height_ = given["shape"][0];
    width_ = given["shape"][1];
    channels_ = given["shape"][2];
    for (const nlohmann::json& one : given["images"]) images_[one[0]] = one[1].get_binary();
  }
}

std::vector<uint8_t> SampleGrid::Png() const {
  if (images_.empty()) return {};
  const int64_t count = std::ssize(images_);
  const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t wide = columns * (width_ + kGap) - kGap, high = rows * (height_ + kGap) - kGap;
  std::vector<uint8_t> pixels(static_cast<size_t>(wide * high * channels_), 255);
  int64_t i = 0;
  for (const auto& [sample, image] : images_) {
    const int64_t left = i % columns * (width_ + kGap), top = i / columns * (height_ + kGap);
    for (int64_t y = 0; y < height_; ++y) {
      std::copy_n(image.begin() + y * width_ * channels_, width_ * channels_,
                  pixels.begin() + ((top + y) * wide + left) * channels_);
    }
    ++i;
  }
  return formats::EncodePng(wide, high, pixels);
}

}  // namespace plimsoll::trainer
