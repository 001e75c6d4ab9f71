// Pictures as decoders give them.
// H height, W width, C channels: 1 (grey) or 3 (red, green, blue), 8 bits each.
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

inline constexpr int64_t kMostRasterPixels = 100'000'000;  // what a picture may have by default
inline constexpr int64_t kMostRasterSide = 65'500;         // as libjpeg has it

// UserError unless a picture has such a size.
void RequireRasterSize(const std::string& name, int64_t height, int64_t width, int64_t most_pixels);

// Rows [top, top + height) and columns [left, left + width) of a picture.
struct RasterBox {
  int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const RasterBox&) const = default;
};

// What a file's header says of its picture, as it is to be looked at.
struct RasterHeader {
  int64_t height = 0, width = 0;
  bool shrinks = false;  // the decoder also gives 1/2, 1/4 and 1/8 of its size
};

// Which pixels of a picture are asked for.
struct RasterRequest {
  RasterBox box;   // of the picture at 1 / shrink of its size, rounded up
  int shrink = 1;  // 1, or where the header says that it shrinks 2, 4 or 8
  // Exact pixels are those of a whole picture. Others have the colours of the nearest sample where
  // a JPEG file stores fewer samples of colours than of brightness.
  bool exact = true;
};

inline RasterRequest WholeOf(const RasterHeader& header) {
  return {.box = {0, 0, header.height, header.width}};
}

// Pixels of a picture: at least those that were asked for. Others are of no use.
struct RasterPart {
  RasterBox box;  // which pixels `raster` has, as a request's box
  Raster raster;
};

// The picture as it is to be looked at, by Exif's orientation 1 to 8: 1 changes nothing, 2 to 4
// mirror, 5 to 8 exchange height and width as well.
Raster Oriented(Raster raster, int orientation);

// Where a box of a picture of that size is once the picture is turned so.
RasterBox OrientedBox(const RasterBox& box, int64_t height, int64_t width, int orientation);

// The orientation that turns a picture back.
int InverseOrientation(int orientation);

}  // namespace plimsoll::formats
