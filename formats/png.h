// Reads and writes PNG files: ISO/IEC 15948, https://www.w3.org/TR/png-3.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/raster.h"

namespace plimsoll::formats {

// Encodes a picture as a PNG file. `pixels`: [height,width,1 or 3], row-major, grey or red, green
// and blue. Equal pixels give equal files.
std::vector<uint8_t> EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels);

// Decodes a PNG file, interlaced or not, and applies its Exif orientation (chunk eXIf). 1, 2 and 4
// bits are expanded to 8; of 16 bits the upper 8 are kept; palette indices become colours;
// transparency is dropped, as Pillow's convert("RGB") does; gamma and profiles are ignored. `name`
// is the file's name in messages. UserErrors: the file is not PNG, is truncated or damaged
// (checksums), has more than `most_pixels` by its header, or announces more pixels than its bytes
// can hold.
Raster DecodePng(std::span<const uint8_t> bytes, const std::string& name, int64_t most_pixels);

}  // namespace plimsoll::formats
