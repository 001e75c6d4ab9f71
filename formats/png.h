// Pictures as PNG files: ISO/IEC 15948, https://www.w3.org/TR/png-3.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/raster.h"

namespace plimsoll::formats {

// The bytes of a file. `pixels`: grey or red, green and blue of each, [height,width,1 or 3], row by
// row. Equal pixels give equal files.
std::vector<uint8_t> EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels);

// Decodes a file, interlaced or not, and turns it by its Exif orientation (chunk eXIf). 1, 2 and 4
// bits grow to 8; of 16 bits the upper 8 stay; a palette's colours take the place of its numbers;
// transparency is left out, as Pillow's convert("RGB") does; gamma and profiles change nothing.
// `name` is the file's in messages. UserError: no PNG file, truncated, damaged (checksums), more
// than `most_pixels` by the header, or more than its bytes can hold.
Raster DecodePng(std::span<const uint8_t> bytes, const std::string& name, int64_t most_pixels);

}  // namespace plimsoll::formats
