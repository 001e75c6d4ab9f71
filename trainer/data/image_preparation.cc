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

ImagePreparation::ImagePreparation(int64_t shorter_side, const ImageSize& canvas,
                                   ChannelStatistics statistics)
    : ImagePreparation(canvas, canvas, std::move(statistics)) {
  this->shorter_side = shorter_side;
}

void ImagePreparation::Draw(std::span<const uint8_t> pixels, std::span<float> out) const {
  DrawImage(pixels, image, centred, normalised, canvas, out);
}

void ImagePreparation::DrawAugmented(std::span<const uint8_t> pixels,
                                     const Augmentation& augmentation, uint64_t seed,
                                     int64_t sample, std::span<float> out) const {
  const Placement placement = augmentation.Draw(centred, seed, sample);
  if (!augmentation.changes_bytes()) {
    DrawImage(pixels, image, placement, normalised, canvas, out);
  } else {
    static thread_local std::vector<uint8_t> bytes, scratch;
    bytes.resize(out.size());
    scratch.resize(out.size());
    PlaceImage(pixels, image, placement, canvas, bytes);
    augmentation.Change(seed, sample, canvas, bytes, scratch);
    DrawImage(bytes, canvas, {}, normalised, canvas, out);
  }
  augmentation.Erase(seed, sample, canvas, out);
}

void ImagePreparation::DrawPicture(std::span<const uint8_t> pixels, const ImageSize& size,
                                   std::span<float> out) const {
  if (size == image && shorter_side == 0) return Draw(pixels, out);
  const std::vector<uint8_t> channels = WithChannels(pixels, size, image.channels);
  const ImageSize same = {size.height, size.width, image.channels};
  if (shorter_side > 0) {
    return Draw(ResizedMiddle(channels, same, shorter_side, image.height, image.width), out);
  }
  Draw(same == image ? channels : Resized(channels, same, image.height, image.width), out);
}

}  // namespace plimsoll::data
