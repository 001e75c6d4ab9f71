#include "formats/decode_raster.h"

#include <utility>

#include "base/error.h"
#include "formats/jpeg.h"
#include "formats/png.h"

namespace plimsoll::formats {

RasterForm RasterFormOf(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return RasterForm::kJpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return RasterForm::kPng;
  return RasterForm::kNone;
}

Raster DecodeRaster(std::span<const uint8_t> bytes, const std::string& name, int64_t most_pixels) {
  return DecodeRasterPart(bytes, name, most_pixels, &WholeOf).raster;
}

RasterPart DecodeRasterPart(std::span<const uint8_t> bytes, const std::string& name,
                            int64_t most_pixels,
                            FunctionRef<RasterRequest(const RasterHeader&)> choose) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (RasterFormOf(text)) {
    case RasterForm::kJpeg:
      return DecodeJpegPart(bytes, name, most_pixels, choose);
    case RasterForm::kPng: {
      Raster raster = DecodePng(bytes, name, most_pixels);
      choose({raster.height, raster.width, false});
      return {.box = {0, 0, raster.height, raster.width}, .raster = std::move(raster)};
    }
    case RasterForm::kNone:
      break;
  }
  throw UserError(name + ": is neither a JPEG nor a PNG file, by its first bytes; convert it");
}

}  // namespace plimsoll::formats
