// The vectorised sums of resampling against plain ones, and parts of pictures against whole ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "data/images/picture_scaling.h"
#include "data/images/resampling_rows.h"
#include "data/images/resampling_windows.h"
#include "tests/formats/box_draws.h"

namespace plimsoll::data {
namespace {

constexpr Resampling kFilters[] = {Resampling::kNearest,  Resampling::kLanczos,
                                   Resampling::kBilinear, Resampling::kBicubic,
                                   Resampling::kBox,      Resampling::kHamming};

// Noise, with a half of 0 and 255: sums that leave the range of bytes.
std::vector<uint8_t> NoiseOf(const ImageSize& size, uint64_t seed) {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < size.elements(); ++i) {
    const uint64_t random = Hash(seed, static_cast<uint64_t>(i));
    const auto byte = static_cast<uint8_t>(random);
    pixels.push_back((random & 0x100) != 0 ? byte : byte < 128 ? 0 : 255);
  }
  return pixels;
}

uint8_t Rounded(int64_t sum) {
  return static_cast<uint8_t>(
      std::clamp<int64_t>((sum + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
}

// One pixel after the other, across and then down, as Pillow's loops.
std::vector<uint8_t> PlainlyResized(const std::vector<uint8_t>& pixels, const ImageSize& size,
                                    const Line& down, const Line& across, Resampling filter) {
  const ResamplingWindows rows = WindowsOf(down, filter), columns = WindowsOf(across, filter);
  std::vector<uint8_t> narrow, result;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t i = 0; i < across.count; ++i) {
      const auto [begin, end] = columns.ranges[static_cast<size_t>(i)];
      for (int64_t c = 0; c < size.channels; ++c) {
        int64_t sum = 0;
        for (int64_t x = begin; x < end; ++x) {
          sum += int64_t{columns.weights[static_cast<size_t>(i * columns.most + x - begin)]} *
                 pixels[static_cast<size_t>((y * size.width + x) * size.channels + c)];
        }
        narrow.push_back(Rounded(sum));
      }
    }
  }
  const int64_t row_bytes = across.count * size.channels;
  for (int64_t i = 0; i < down.count; ++i) {
    const auto [begin, end] = rows.ranges[static_cast<size_t>(i)];
    for (int64_t at = 0; at < row_bytes; ++at) {
      int64_t sum = 0;
      for (int64_t y = begin; y < end; ++y) {
        sum += int64_t{rows.weights[static_cast<size_t>(i * rows.most + y - begin)]} *
               narrow[static_cast<size_t>(y * row_bytes + at)];
      }
      result.push_back(Rounded(sum));
    }
  }
  return result;
}

Line LineOf(int64_t length, int64_t to, int64_t first, int64_t count) {
  return {length, 0, static_cast<double>(length), to, first, count};
}

TEST(Resampling, SumsAsPlainLoopsDo) {
  formats::BoxDraws draw(1);
  for (int i = 0; i < 150; ++i) {
    const ImageSize size = {draw(1, 40), draw(1, 60), draw(0, 1) == 0 ? 1 : 3};
    const std::vector<uint8_t> pixels = NoiseOf(size, static_cast<uint64_t>(i));
    const int64_t height = draw(1, 50), width = draw(1, 50);
    const ImageBox kept = draw.Box(height, width);
    for (const Resampling filter : kFilters) {
      if (filter == Resampling::kNearest) continue;
      const PictureResize resize = {{0, 0, size.height, size.width}, height, width, kept, filter};
      ASSERT_EQ(Resized(pixels, size.channels, resize.box, resize),
                PlainlyResized(pixels, size, LineOf(size.height, height, kept.top, kept.height),
                               LineOf(size.width, width, kept.left, kept.width), filter))
          << size.ToString() << " to " << height << " × " << width;
    }
  }
}

// The pixels of a part, and nothing else: memory ends with them.
TEST(Resampling, ReadsThePixelsThatTakePart) {
  formats::BoxDraws draw(2);
  for (int i = 0; i < 200; ++i) {
    const ImageSize size = {draw(1, 40), draw(1, 60), draw(0, 1) == 0 ? 1 : 3};
    const std::vector<uint8_t> pixels = NoiseOf(size, static_cast<uint64_t>(i));
    const int64_t height = draw(1, 50), width = draw(1, 50);
    for (const Resampling filter : kFilters) {
      const PictureResize resize = {draw.Box(size.height, size.width), height, width,
                                    draw.Box(height, width), filter};
      const ImageBox source = SourceOf(resize), whole = {0, 0, size.height, size.width};
      ASSERT_GE(source.top, resize.box.top);
      ASSERT_LE(source.left + source.width, resize.box.left + resize.box.width);
      std::vector<uint8_t> part;
      for (int64_t y = source.top; y < source.top + source.height; ++y) {
        const auto begin = pixels.begin() + (y * size.width + source.left) * size.channels;
        part.insert(part.end(), begin, begin + source.width * size.channels);
      }
      part.shrink_to_fit();
      ASSERT_EQ(Resized(part, size.channels, source, resize),
                Resized(pixels, size.channels, whole, resize));
    }
  }
}

TEST(Resampling, RefusesAPartWithoutThePixels) {
  const PictureResize resize = {{0, 0, 8, 8}, 4, 4, {0, 0, 4, 4}};
  const std::vector<uint8_t> pixels(8 * 8 * 3);
  EXPECT_EQ(Resized(pixels, 3, {0, 0, 8, 8}, resize).size(), 4u * 4 * 3);
  EXPECT_THROW(Resized(pixels, 3, {1, 0, 8, 8}, resize), InternalError);
  EXPECT_THROW(Resized(pixels, 3, {0, 0, 8, 7}, resize), InternalError);
  EXPECT_THROW(Resized(std::span(pixels).first(100), 3, {0, 0, 8, 8}, resize), InternalError);
  EXPECT_THROW(Resized(pixels, 2, {0, 0, 8, 8}, resize), InternalError);
}

// A picture that becomes no smaller stays where it is within the one that is kept.
TEST(Resampling, CopiesWhatKeepsItsSize) {
  const ImageSize size = {9, 7, 3};
  const std::vector<uint8_t> pixels = NoiseOf(size, 5);
  for (const Resampling filter : kFilters) {
    const PictureResize resize = {{1, 2, 6, 5}, 6, 5, {2, 1, 3, 2}, filter};
    std::vector<uint8_t> expected;
    for (int64_t y = 3; y < 6; ++y) {
      const auto begin = pixels.begin() + (y * 7 + 3) * 3;
      expected.insert(expected.end(), begin, begin + 2 * 3);
    }
    EXPECT_EQ(Resized(pixels, 3, {0, 0, 9, 7}, resize), expected);
  }
}

TEST(Resampling, ShrinksWhatIsStillLargeEnough) {
  const auto shrink = [](const ImageBox& box) { return ShrinkFor({box, 10, 20, {0, 0, 10, 20}}); };
  EXPECT_EQ(shrink({3, 3, 10, 20}), 1);
  EXPECT_EQ(shrink({0, 0, 5, 5}), 1);
  EXPECT_EQ(shrink({0, 0, 19, 400}), 1);
  EXPECT_EQ(shrink({0, 0, 20, 40}), 2);
  EXPECT_EQ(shrink({0, 0, 79, 80}), 4);
  EXPECT_EQ(shrink({0, 0, 80, 159}), 4);
  EXPECT_EQ(shrink({0, 0, 8000, 8000}), 8);
}

// Of a picture at half of its size whose pixels rise evenly, a box that begins and ends within
// pixels keeps its place.
TEST(Resampling, TakesBoxesOfShrunkPictures) {
  constexpr int64_t kSide = 64;
  for (const int64_t shrink : {1, 2, 4, 8}) {
    const int64_t side = kSide / shrink;
    std::vector<uint8_t> pixels;  // of pixel (y, x) of the whole picture: 2 x + y
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) {
        const auto middle = static_cast<double>(shrink - 1) / 2;
        const double row = static_cast<double>(y * shrink) + middle;
        const double column = static_cast<double>(x * shrink) + middle;
        pixels.push_back(static_cast<uint8_t>(2 * column + row));
      }
    }
    for (const int64_t top : {8, 9, 11, 14}) {
      const PictureResize resize = {{top, top + 1, 35, 33}, 4, 4, {1, 1, 2, 2}};
      const ImageBox source = SourceOf(resize, shrink);
      EXPECT_GE(source.top * shrink, top - shrink);
      EXPECT_LE((source.top + source.height - 1) * shrink, top + 35);
      const std::vector<uint8_t> middle = Resized(pixels, 1, {0, 0, side, side}, resize, shrink);
      for (int64_t i = 0; i < 4; ++i) {
        const double row = static_cast<double>(top) + 35 * (1.5 + static_cast<double>(i / 2)) / 4;
        const double column =
            static_cast<double>(top) + 1 + 33 * (1.5 + static_cast<double>(i % 2)) / 4;
        EXPECT_NEAR(middle[static_cast<size_t>(i)], 2 * (column - 0.5) + row - 0.5, 2)
            << shrink << " " << top;
      }
    }
  }
}

// Every range is inside its line, and the weights of its pixels are 1 together.
TEST(ResamplingWindows, WeighWhatIsInsideTheLine) {
  formats::BoxDraws draw(3);
  for (int i = 0; i < 300; ++i) {
    const int64_t pixels = draw(1, 200), to = draw(1, 60);
    const int64_t count = draw(1, to), first = draw(0, to - count);
    const double begin = static_cast<double>(draw(0, 7)) / 8;
    const double length =
        std::max(static_cast<double>(pixels) - begin - static_cast<double>(draw(0, 7)) / 8, 0.125);
    const Line line = {pixels, begin, length, to, first, count};
    for (const Resampling filter : kFilters) {
      const PixelRange all = PixelsOf(line, filter);
      EXPECT_GE(all.begin, 0);
      EXPECT_LE(all.end, pixels);
      if (filter == Resampling::kNearest) continue;
      const ResamplingWindows windows = WindowsOf(line, filter);
      ASSERT_EQ(std::ssize(windows.ranges), count);
      EXPECT_EQ(windows.ranges.front().begin, all.begin);
      EXPECT_EQ(windows.ranges.back().end, all.end);
      for (int64_t k = 0; k < count; ++k) {
        const PixelRange range = windows.ranges[static_cast<size_t>(k)];
        ASSERT_LT(range.begin, range.end);
        int64_t sum = 0;
        for (int64_t w = 0; w < windows.most; ++w) {
          sum += windows.weights[static_cast<size_t>(k * windows.most + w)];
        }
        EXPECT_NEAR(static_cast<double>(sum), 1 << kWeightBits, static_cast<double>(windows.most));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::data
