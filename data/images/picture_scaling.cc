#include "data/images/picture_scaling.h"

#include <algorithm>

#include "base/error.h"
#include "data/images/resampling_rows.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostShrink = 8;

// One dimension of a resize: the box's pixels [begin, begin + length) are resized to `to` pixels,
// of which [first, first + count) are kept.
struct Side {
  int64_t begin, length, to, first, count;
};

// A Side in a picture that was first reduced to 1 / shrink of its size. `begin` is the first
// reduced pixel of `line`. The box may begin and end inside reduced pixels.
struct SideOfPart {
  SideOfPart(const Side& side, int64_t shrink) : begin(side.begin / shrink) {
    const auto scaled = [&](int64_t pixels) {
      return static_cast<double>(pixels) / static_cast<double>(shrink);
    };
    line = {.pixels = (side.begin + side.length + shrink - 1) / shrink - begin,
            .begin = scaled(side.begin) - static_cast<double>(begin),
            .length = scaled(side.length),
            .to = side.to,
            .first = side.first,
            .count = side.count};
  }

  int64_t begin;
  Line line;
};

SideOfPart DownOf(const PictureResize& resize, int64_t shrink) {
  return {{resize.box.top, resize.box.height, resize.height, resize.kept.top, resize.kept.height},
          shrink};
}

SideOfPart AcrossOf(const PictureResize& resize, int64_t shrink) {
  return {{resize.box.left, resize.box.width, resize.width, resize.kept.left, resize.kept.width},
          shrink};
}

// Copies `rows` rows of `row_bytes` bytes, which are `stride` bytes apart, into contiguous memory.
std::vector<uint8_t> Copied(const uint8_t* from, int64_t stride, int64_t rows, int64_t row_bytes) {
  std::vector<uint8_t> result(static_cast<size_t>(rows * row_bytes));
  for (int64_t y = 0; y < rows; ++y) {
    std::copy_n(from + y * stride, row_bytes, result.data() + y * row_bytes);
  }
  return result;
}

std::vector<uint8_t> Nearest(const uint8_t* first, int64_t stride, int64_t channels,
                             const Line& down, const Line& across) {
  const std::vector<int64_t> rows = NearestOf(down), columns = NearestOf(across);
  std::vector<uint8_t> result(rows.size() * columns.size() * static_cast<size_t>(channels));
  uint8_t* to = result.data();
  for (const int64_t y : rows) {
    for (const int64_t x : columns) {
      const uint8_t* const pixel =
          first + (y - rows.front()) * stride + (x - columns.front()) * channels;
      to = std::copy_n(pixel, channels, to);
    }
  }
  return result;
}

ImageBox WholeOf(const ImageSize& size) { return {0, 0, size.height, size.width}; }

}  // namespace

ImageBox SourceOf(const PictureResize& resize, int64_t shrink) {
  const SideOfPart down = DownOf(resize, shrink), across = AcrossOf(resize, shrink);
  const PixelRange rows = PixelsOf(down.line, resize.filter);
  const PixelRange columns = PixelsOf(across.line, resize.filter);
  return {down.begin + rows.begin, across.begin + columns.begin, rows.end - rows.begin,
          columns.end - columns.begin};
}

int64_t ShrinkFor(const PictureResize& resize) {
  int64_t shrink = kMostShrink;
  while (shrink > 1 &&
         (resize.box.height < shrink * resize.height || resize.box.width < shrink * resize.width)) {
    shrink /= 2;
  }
  return shrink;
}

// Resizes across first, and only the rows that resizing down needs.
std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, int64_t channels,
                             const ImageBox& part, const PictureResize& resize, int64_t shrink) {
  if (channels != 1 && channels != 3) throw InternalError("pictures of other channels");
  const ImageBox source = SourceOf(resize, shrink);
  if (source.top < part.top || source.left < part.left ||
      source.top + source.height > part.top + part.height ||
      source.left + source.width > part.left + part.width ||
      std::ssize(pixels) < part.height * part.width * channels) {
    throw InternalError("a part of a picture without the pixels that take part");
  }
  const SideOfPart down = DownOf(resize, shrink), across = AcrossOf(resize, shrink);
  const int64_t stride = part.width * channels;
  const int64_t row_bytes = across.line.count * channels;
  if (down.line.stays() && across.line.stays()) {
    const int64_t top = down.begin + down.line.first - part.top;
    const int64_t left = across.begin + across.line.first - part.left;
    return Copied(pixels.data() + top * stride + left * channels, stride, down.line.count,
                  row_bytes);
  }
  const uint8_t* const first =
      pixels.data() + (source.top - part.top) * stride + (source.left - part.left) * channels;
  if (resize.filter == Resampling::kNearest) {
    return Nearest(first, stride, channels, down.line, across.line);
  }
  const ResampledRows narrow =
      SumAcross({first, stride}, source.height, channels, source.left - across.begin,
                WindowsOf(across.line, resize.filter));
  std::vector<uint8_t> result(static_cast<size_t>(down.line.count * row_bytes));
  SumDown(narrow, source.top - down.begin, row_bytes, WindowsOf(down.line, resize.filter),
          result.data());
  return result;
}

std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size,
                             const ImageBox& box, int64_t height, int64_t width,
                             Resampling filter) {
  return Resized(pixels, size.channels, WholeOf(size),
                 {box, height, width, {0, 0, height, width}, filter});
}

std::vector<uint8_t> Resized(std::span<const uint8_t> pixels, const ImageSize& size, int64_t height,
                             int64_t width, Resampling filter) {
  return Resized(pixels, size, WholeOf(size), height, width, filter);
}

PictureResize MiddleOf(const ImageSize& size, const ImageSize& whole, int64_t height, int64_t width,
                       Resampling filter) {
  const ImageBox kept = {(whole.height - height) / 2, (whole.width - width) / 2, height, width};
  return {WholeOf(size), whole.height, whole.width, kept, filter};
}

std::vector<uint8_t> ResizedMiddle(std::span<const uint8_t> pixels, const ImageSize& size,
                                   const ImageSize& whole, int64_t height, int64_t width,
                                   Resampling filter) {
  return Resized(pixels, size.channels, WholeOf(size),
                 MiddleOf(size, whole, height, width, filter));
}

ImageSize WithShorterSide(const ImageSize& size, int64_t side) {
  const int64_t shorter = std::min(size.height, size.width);
  return {side * size.height / shorter, side * size.width / shorter, size.channels};
}

std::vector<uint8_t> WithChannels(std::span<const uint8_t> pixels, const ImageSize& size,
                                  int64_t channels) {
  if (channels == size.channels) return {pixels.begin(), pixels.end()};
  std::vector<uint8_t> result(static_cast<size_t>(size.height * size.width * channels));
  uint8_t* to = result.data();
  if (size.channels == 1 && channels == 3) {
    for (const uint8_t grey : pixels) to = std::fill_n(to, 3, grey);
    return result;
  }
  if (size.channels != 3 || channels != 1) throw InternalError("pictures of other channels");
  for (size_t i = 0; i < pixels.size(); i += 3) {
    // Pillow's fixed-point arithmetic: 16 fractional bits, rounded.
    const uint32_t grey = pixels[i] * 19595u + pixels[i + 1] * 38470u + pixels[i + 2] * 7471u;
    *to++ = static_cast<uint8_t>((grey + 0x8000u) >> 16);
  }
  return result;
}

}  // namespace plimsoll::data
