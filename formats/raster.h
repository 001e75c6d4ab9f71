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

// The picture as it is to be looked at, by Exif's orientation 1 to 8: 1 changes nothing, 2 to 4
// mirror, 5 to 8 exchange height and width as well.
Raster Oriented(Raster raster, int orientation);

}  // namespace plimsoll::formats
