#include "formats/raster.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/error.h"

namespace plimsoll::formats {
namespace {

// How to read the stored picture so that it is upright: transposed first, then mirrored vertically
// and horizontally.
struct Turn {
  bool transposed = false, from_bottom = false, from_right = false;
};

Turn TurnOf(int orientation) {
  const auto is_any_of = [&](std::initializer_list<int> some) {
    return std::ranges::find(some, orientation) != some.end();
  };
  return {.transposed = is_any_of({5, 6, 7, 8}),
          .from_bottom = is_any_of({3, 4, 6, 7}),
          .from_right = is_any_of({2, 3, 7, 8})};
}

}  // namespace

void RequireRasterSize(const std::string& name, int64_t height, int64_t width,
                       int64_t most_pixels) {
  if (height >= 1 && width >= 1 && height <= kMostRasterSide && width <= kMostRasterSide &&
      height * width <= most_pixels) {
    return;
  }
  throw UserError(
      fmt::format("{}: its header announces {} × {} pixels, and at most {} are read, {} to a side; "
                  "make it smaller",
                  name, height, width, most_pixels, kMostRasterSide));
}

Raster Oriented(Raster raster, int orientation) {
  const auto [transposed, from_bottom, from_right] = TurnOf(orientation);
  if (!transposed && !from_bottom && !from_right) return raster;
  Raster seen = {.height = transposed ? raster.width : raster.height,
                 .width = transposed ? raster.height : raster.width,
                 .channels = raster.channels,
                 .pixels = std::vector<uint8_t>(raster.pixels.size())};
  uint8_t* to = seen.pixels.data();
  for (int64_t y = 0; y < seen.height; ++y) {
    for (int64_t x = 0; x < seen.width; ++x) {
      const int64_t down = transposed ? x : y, across = transposed ? y : x;
      const int64_t row = from_bottom ? raster.height - 1 - down : down;
      const int64_t column = from_right ? raster.width - 1 - across : across;
      const uint8_t* const from =
          raster.pixels.data() + (row * raster.width + column) * raster.channels;
      to = std::copy_n(from, raster.channels, to);
    }
  }
  return seen;
}

RasterBox OrientedBox(const RasterBox& box, int64_t height, int64_t width, int orientation) {
  const auto [transposed, from_bottom, from_right] = TurnOf(orientation);
  const int64_t down = from_bottom ? height - box.top - box.height : box.top;
  const int64_t across = from_right ? width - box.left - box.width : box.left;
  if (transposed) return {across, down, box.width, box.height};
  return {down, across, box.height, box.width};
}

int InverseOrientation(int orientation) {
  if (orientation == 6) return 8;
  return orientation == 8 ? 6 : orientation;
}

}  // namespace plimsoll::formats
