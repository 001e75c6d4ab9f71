// Any bytes either are a JPEG or PNG file, whose pixels are as many as its size says, or raise a
// UserError. The Exif orientation of any bytes is 1 to 8.
// Memory (-rss_limit_mb) stays small whatever a header announces.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "formats/decode_raster.h"
#include "formats/exif.h"

namespace {

using namespace plimsoll;

constexpr int64_t kMostPixels = 1 << 18;

void Require(bool condition) {
  if (!condition) __builtin_trap();
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
  } catch (const UserError& error) {
    Require(std::string(error.what()).find('\n') == std::string::npos);
  }
  return 0;
}
