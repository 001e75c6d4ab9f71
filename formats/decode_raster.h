// Decoding of JPEG and PNG files, told apart by what they begin with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "formats/raster.h"

namespace plimsoll::formats {

enum class RasterForm { kNone, kJpeg, kPng };

// By the first bytes of a file.
RasterForm RasterFormOf(std::string_view bytes);

// Decodes a JPEG or PNG file (formats/jpeg.h, formats/png.h); `name` is its own in messages.
// The header's size is checked before memory is taken for it. UserError: it is neither, damaged,
// truncated, of a kind that isn't read, or has more than `most_pixels`.
Raster DecodeRaster(std::span<const uint8_t> bytes, const std::string& name,
                    int64_t most_pixels = kMostRasterPixels);

// Decodes what `choose` asks for once the header is read: of a JPEG file those rows and columns
// (DecodeJpegPart), of a PNG file the whole. UserError as above.
RasterPart DecodeRasterPart(std::span<const uint8_t> bytes, const std::string& name,
                            int64_t most_pixels,
                            FunctionRef<RasterRequest(const RasterHeader&)> choose);

}  // namespace plimsoll::formats
