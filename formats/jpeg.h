// JPEG files through libjpeg-turbo: ITU-T T.81.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "formats/raster.h"

namespace plimsoll::formats {

// Decodes a file of 8 bits a channel, baseline or progressive, with the accurate integer DCT and
// smooth upsampling, as Pillow does, and turns it by its Exif orientation. Grey stays grey; CMYK
// and YCCK, inverted as Adobe writes them, become red, green and blue in Pillow's integers. `name`
// is the file's in messages. Beside the picture it takes memory for a progressive file's
// coefficients, 2 bytes for each pixel and channel. UserError: no JPEG file, truncated or damaged
// pixels, 12 bits, more than `most_pixels` by the header, or more than 500 scans.
Raster DecodeJpeg(std::span<const uint8_t> bytes, const std::string& name, int64_t most_pixels);

// Decodes the rows and columns that `choose` asks for once the header is read. Exact ones have the
// bits of DecodeJpeg's. Of a baseline file nothing below them is read: damaged pixels there are no
// error, a missing end is one. Rows above are read without being made pixels.
RasterPart DecodeJpegPart(std::span<const uint8_t> bytes, const std::string& name,
                          int64_t most_pixels,
                          FunctionRef<RasterRequest(const RasterHeader&)> choose);

// The bytes of a file. `pixels` [height,width,C], C of 1 or 3; `quality` 1 to 100. Colours are
// stored at half of the resolution, as libjpeg does unless told otherwise.
std::vector<uint8_t> EncodeJpeg(int64_t height, int64_t width, std::span<const uint8_t> pixels,
                                int quality);

}  // namespace plimsoll::formats
