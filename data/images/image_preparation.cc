#include "data/images/image_preparation.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace plimsoll::data {

ImageSize Resizing::Of(const ImageSize& picture) const {
  if (shorter_side > 0) return WithShorterSide(picture, shorter_side);
  return {height, width, picture.channels};
}

ImagePreparation::ImagePreparation(const ImageSize& image, const ImageSize& canvas, ByteScale bytes,
                                   Resampling filter)
    : resizing{.height = image.height, .width = image.width},
      filter(filter),
      image(image),
      canvas(canvas),
      centred(Centred(image, canvas)),
      bytes(std::move(bytes)),
      normalised(this->bytes.statistics, this->bytes.rescale) {}

ImagePreparation::ImagePreparation(const Resizing& resizing, const ImageSize& canvas,
                                   ByteScale bytes, Resampling filter)
    : ImagePreparation(canvas, canvas, std::move(bytes), filter) {
  this->resizing = resizing;
  any_size = true;
}

ImagePreparation ImagePreparation::WithCanvas(const ImageSize& other) const {
  const auto scaled = [](int64_t side, int64_t from, int64_t to) {
    return (side * to + from / 2) / from;
  };
  const Resizing to = {
      .shorter_side = scaled(resizing.shorter_side, std::max(canvas.height, canvas.width),
                             std::max(other.height, other.width)),
      .height = scaled(resizing.height, canvas.height, other.height),
      .width = scaled(resizing.width, canvas.width, other.width)};
  if (any_size) return {to, other, bytes, filter};
  return {ImageSize{to.height, to.width, other.channels}, other, bytes, filter};
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

PictureResize ImagePreparation::ResizeOf(const ImageSize& size) const {
  return MiddleOf(size, resizing.Of(size), image.height, image.width, filter);
}

std::vector<uint8_t> ImagePreparation::Fitted(std::span<const uint8_t> pixels,
                                              const ImageSize& size) const {
  return Resized(pixels, size.channels, {0, 0, size.height, size.width}, ResizeOf(size));
}

void ImagePreparation::DrawPicture(std::span<const uint8_t> pixels, const ImageSize& size,
                                   std::span<float> out) const {
  if (size == image && !any_size) return Draw(pixels, out);
  const std::vector<uint8_t> channels = WithChannels(pixels, size, image.channels);
  Draw(Fitted(channels, {size.height, size.width, image.channels}), out);
}

}  // namespace plimsoll::data
