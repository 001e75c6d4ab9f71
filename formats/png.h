// Pictures as PNG files: ISO/IEC 15948, https://www.w3.org/TR/png-3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::formats {

// The bytes of a file. `pixels`: grey or red, green and blue of each, [height,width,1 or 3], row by
// row. Equal pixels give equal files.
std::vector<uint8_t> EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels);

}  // namespace plimsoll::formats
