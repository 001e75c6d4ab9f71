#include "trainer/data/image_preparation.h"

#include <utility>
#include <vector>

#include "trainer/data/picture_scaling.h"

namespace plimsoll::data {

ImagePreparation::ImagePreparation(const ImageSize& image, const ImageSize& canvas,
                                   ChannelStatistics statistics)
    : image(image),
      canvas(canvas),
      centred(Centred(image, canvas)),
      statistics(std::move(statistics)),
      normalised(this->statistics) {}

void ImagePreparation::Draw(std::span<const uint8_t> pixels, std::span<float> out) const {
  DrawImage(pixels, image, centred, normalised, canvas, out);
}

void ImagePreparation::DrawPicture(std::span<const uint8_t> pixels, const ImageSize& size,
                                   std::span<float> out) const {
  if (size == image) return Draw(pixels, out);
  const std::vector<uint8_t> channels = WithChannels(pixels, size, image.channels);
  const ImageSize same = {size.height, size.width, image.channels};
  Draw(same == image ? channels : Resized(channels, same, image.height, image.width), out);
}

}  // namespace plimsoll::data
