// Any bytes either are a JPEG or PNG file, whose pixels are as many as its size says, or raise a
// UserError. A part of a picture that can be read can be read as well, with the same pixels. The
// Exif orientation of any bytes is 1 to 8. Memory (-rss_limit_mb) stays small whatever a header
// announces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "formats/decode_raster.h"
#include "formats/exif.h"

namespace {

using namespace plimsoll;

constexpr int64_t kMostPixels = 1 << 18;

void Require(bool condition) {
  if (!condition) __builtin_trap();
}

// A box that follows from a number.
formats::RasterBox BoxIn(const formats::Raster& raster, uint64_t number) {
  const auto draw = [&](uint64_t purpose, int64_t most) {
    return static_cast<int64_t>(Hash(number, purpose) % static_cast<uint64_t>(most + 1));
  };
  const int64_t rows = 1 + draw(0, raster.height - 1), columns = 1 + draw(1, raster.width - 1);
  return {draw(2, raster.height - rows), draw(3, raster.width - columns), rows, columns};
}

void RequireSame(const formats::Raster& whole, const formats::RasterBox& box,
                 const formats::RasterPart& part) {
  const formats::RasterBox& has = part.box;
  Require(part.raster.channels == whole.channels);
  Require(has.height * has.width * whole.channels == std::ssize(part.raster.pixels));
  Require(has.top <= box.top && has.left <= box.left);
  Require(has.top + has.height >= box.top + box.height);
  Require(has.left + has.width >= box.left + box.width);
  for (int64_t y = box.top; y < box.top + box.height; ++y) {
    const int64_t at = (y * whole.width + box.left) * whole.channels;
    const int64_t in_part = ((y - has.top) * has.width + box.left - has.left) * whole.channels;
    Require(std::equal(whole.pixels.begin() + at,
                       whole.pixels.begin() + at + box.width * whole.channels,
                       part.raster.pixels.begin() + in_part));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  const int orientation = formats::App1Orientation(bytes);
  Require(orientation >= 1 && orientation <= 8);
  try {
    const formats::Raster raster = formats::DecodeRaster(bytes, "fuzz", kMostPixels);
    Require(raster.height >= 1 && raster.width >= 1);
    Require(raster.channels == 1 || raster.channels == 3);
    Require(raster.height * raster.width <= kMostPixels);
    Require(raster.height * raster.width * raster.channels == std::ssize(raster.pixels));
    const formats::RasterBox box = BoxIn(raster, size);
    const formats::RasterPart part = formats::DecodeRasterPart(
        bytes, "fuzz", kMostPixels,
        [&](const formats::RasterHeader&) { return formats::RasterRequest{.box = box}; });
    RequireSame(raster, box, part);
  } catch (const UserError& error) {
    Require(std::string(error.what()).find('\n') == std::string::npos);
  }
  return 0;
}
