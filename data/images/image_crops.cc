#include "data/images/image_crops.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::data {
namespace {

constexpr int kCropTries = 10;

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

}  // namespace plimsoll::data
