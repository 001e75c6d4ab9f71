// JPEG files, read and written with libjpeg-turbo: ITU-T T.81.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "formats/raster.h"

namespace plimsoll::formats {

// Decodes a file of 8 bits a channel, baseline or progressive, with the accurate integer DCT and
// smooth upsampling, as Pillow does, and applies its Exif orientation. Grey stays grey; CMYK and
// YCCK, inverted as Adobe writes them, become red, green and blue in Pillow's integer arithmetic.
// `name` is the file's name in messages. In addition to the picture, a progressive file's
// coefficients take 2 bytes of memory for each pixel and channel. UserErrors: the file is not JPEG,
// has truncated or damaged pixels, has 12 bits, has more than `most_pixels` by its header, or has
// more than 500 scans.
Raster DecodeJpeg(std::span<const uint8_t> bytes, const std::string& name, int64_t most_pixels);

// Decodes the rows and columns that `choose` asks for once the header is read. If the request is
// exact, the bits are those of DecodeJpeg. In a baseline file nothing below these rows is decoded:
// damaged pixels there are no error, but a missing end marker is. Rows above are parsed without
// computing their pixels.
RasterPart DecodeJpegPart(std::span<const uint8_t> bytes, const std::string& name,
                          int64_t most_pixels,
                          FunctionRef<RasterRequest(const RasterHeader&)> choose);

// Encodes a picture as a JPEG file. `pixels` is [height,width,C], C is 1 or 3, `quality` is 1 to
// 100. Chroma is stored at half the resolution, libjpeg's default.
std::vector<uint8_t> EncodeJpeg(int64_t height, int64_t width, std::span<const uint8_t> pixels,
                                int quality);

}  // namespace plimsoll::formats
