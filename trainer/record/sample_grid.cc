#include "trainer/record/sample_grid.h"

#include <algorithm>
#include <cmath>

#include "formats/png.h"
#include "trainer/record/brightness.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kGap = 2;  // pixels between two images

}  // namespace

void SampleGrid::Add(Session& session) {
  if (!session.Carries(kMadeImages)) return;
  const graph::Shape shape = session.ShapeOf(kMadeImages);
  if (shape.rank() != 4 || (shape.dim(3) != 1 && shape.dim(3) != 3)) return;
  height_ = shape.dim(1);
  width_ = shape.dim(2);
  channels_ = shape.dim(3);
  const auto most = static_cast<size_t>(kMost * height_ * width_ * channels_);
  if (images_.size() >= most) return;
  const std::vector<float> made = session.Read<float>(kMadeImages);
  const size_t taken = std::min(made.size(), most - images_.size());
  images_.insert(images_.end(), made.begin(), made.begin() + static_cast<int64_t>(taken));
}

std::vector<uint8_t> SampleGrid::Png() const {
  if (images_.empty()) return {};
  const int64_t each = height_ * width_ * channels_;
  const int64_t count = std::ssize(images_) / each;
  const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t wide = columns * (width_ + kGap) - kGap, high = rows * (height_ + kGap) - kGap;
  std::vector<uint8_t> pixels(static_cast<size_t>(wide * high * channels_), 255);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t left = i % columns * (width_ + kGap), top = i / columns * (height_ + kGap);
    for (int64_t y = 0; y < height_; ++y) {
      const auto from = images_.begin() + i * each + y * width_ * channels_;
      std::transform(from, from + width_ * channels_,
                     pixels.begin() + ((top + y) * wide + left) * channels_, &Brightness);
    }
  }
  return formats::EncodePng(wide, high, pixels);
}

}  // namespace plimsoll::trainer
