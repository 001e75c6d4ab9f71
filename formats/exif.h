// EXIF metadata of pictures (Exif 2.32, CIPA DC-008): what cameras write into them, a TIFF 6.0
// directory of tags.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::formats {

// The tag Orientation of directory 0, 1 to 8. `tiff`: from the byte order on, as PNG's chunk eXIf
// has it. 1 where there is no such tag, or where the bytes are no Exif: a picture is of use
// without.
int ExifOrientation(std::span<const uint8_t> tiff);

// The same of the content of JPEG's segment APP1, which begins with "Exif\0\0".
int App1Orientation(std::span<const uint8_t> segment);

}  // namespace plimsoll::formats
