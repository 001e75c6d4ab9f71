// Decodes JPEG and PNG files, which are recognised by their first bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "formats/raster.h"

namespace plimsoll::formats {

enum class RasterForm { kNone, kJpeg, kPng };

// The format that a file's first bytes show.
RasterForm RasterFormOf(std::string_view bytes);

// Decodes a JPEG or PNG file (formats/jpeg.h, formats/png.h); `name` is the file's name in
// messages. The header's size is checked before memory is allocated for it. UserErrors: the file is
// neither JPEG nor PNG, is damaged, truncated or of an unsupported kind, or has more than
// `most_pixels`.
Raster DecodeRaster(std::span<const uint8_t> bytes, const std::string& name,
                    int64_t most_pixels = kMostRasterPixels);

// Decodes the part that `choose` asks for once the header is read: of a JPEG file only those rows
// and columns (DecodeJpegPart), of a PNG file the complete picture. Throws the UserErrors of
// DecodeRaster.
RasterPart DecodeRasterPart(std::span<const uint8_t> bytes, const std::string& name,
                            int64_t most_pixels,
                            FunctionRef<RasterRequest(const RasterHeader&)> choose);

}  // namespace plimsoll::formats
