// EXIF metadata of pictures (Exif 2.32, CIPA DC-008): a TIFF 6.0 directory of tags that cameras
// write.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::formats {

// Returns the tag Orientation, 1 to 8, of directory 0. `tiff`: the bytes from the byte-order mark
// on, as in PNG's chunk eXIf. Returns 1 if the tag is missing or the bytes are not valid Exif,
// since a picture is usable without an orientation.
int ExifOrientation(std::span<const uint8_t> tiff);

// Does the same for the content of JPEG's segment APP1, which begins with "Exif\0\0".
int App1Orientation(std::span<const uint8_t> segment);

}  // namespace plimsoll::formats
