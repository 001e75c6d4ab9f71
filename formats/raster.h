// Decoded pictures. H height, W width, C channels: 1 (grey) or 3 (red, green, blue), 8 bits each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::formats {

struct Raster {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // [H,W,C]

  bool operator==(const Raster&) const = default;
};

inline constexpr int64_t kMostRasterPixels = 100'000'000;  // default limit on a picture's pixels
inline constexpr int64_t kMostRasterSide = 65'500;  // longest side of a picture, libjpeg's limit

// Throws a UserError unless the size is within the limits.
void RequireRasterSize(const std::string& name, int64_t height, int64_t width, int64_t most_pixels);

// A box: rows [top, top + height) and columns [left, left + width) of a picture.
struct RasterBox {
  int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const RasterBox&) const = default;
};

// The picture's size in a file's header, after its orientation is applied.
struct RasterHeader {
  int64_t height = 0, width = 0;
  bool shrinks = false;  // whether the decoder can also decode at 1/2, 1/4 and 1/8 of the size
};

// The pixels that a caller asks a decoder for.
struct RasterRequest {
  RasterBox box;   // in the picture reduced to 1 / shrink of its size, rounded up
  int shrink = 1;  // 1; also 2, 4 or 8 if the header says `shrinks`
  // Exact pixels equal those of the completely decoded picture. With false, a JPEG file with
  // subsampled chroma takes the colour of the nearest sample.
  bool exact = true;
};

inline RasterRequest WholeOf(const RasterHeader& header) {
  return {.box = {0, 0, header.height, header.width}};
}

// A decoded part of a picture: at least the pixels that were asked for, and possibly more.
struct RasterPart {
  RasterBox box;  // the pixels in `raster`, in the coordinates of the request's box
  Raster raster;
};

// Applies Exif's orientation 1 to 8 to a picture: 1 changes nothing, 2 to 4 mirror or rotate by
// 180°, 5 to 8 also exchange height and width.
Raster Oriented(Raster raster, int orientation);

// The position of a box after the orientation is applied to its height × width picture.
RasterBox OrientedBox(const RasterBox& box, int64_t height, int64_t width, int orientation);

// The orientation that undoes another one.
int InverseOrientation(int orientation);

}  // namespace plimsoll::formats
