// Parts of JPEG files against the same pixels of whole ones, of every kind that is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/decode_raster.h"
#include "formats/jpeg.h"
#include "formats/png.h"
#include "tests/formats/box_draws.h"
#include "tests/formats/jpeg_kinds.h"
#include "tests/support/expect_error.h"

namespace plimsoll::formats {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

constexpr int64_t kMostPixels = 100'000;

RasterPart Part(const Bytes& file, const RasterRequest& request) {
  return DecodeRasterPart(file, "part", kMostPixels, [&](const RasterHeader&) { return request; });
}

Raster Whole(const Bytes& file, int shrink, bool exact) {
  return DecodeRasterPart(
             file, "whole", kMostPixels,
             [&](const RasterHeader& header) {
               const auto shrunk = [&](int64_t side) { return (side + shrink - 1) / shrink; };
               return RasterRequest{.box = {0, 0, shrunk(header.height), shrunk(header.width)},
                                    .shrink = shrink,
                                    .exact = exact};
             })
      .raster;
}

// Of a raster that has the pixels `from` of a picture, those of a box within.
Bytes PixelsOf(const Raster& raster, const RasterBox& from, const RasterBox& box) {
  EXPECT_EQ(raster.height, from.height);
  EXPECT_EQ(raster.width, from.width);
  EXPECT_LE(from.top, box.top);
  EXPECT_LE(from.left, box.left);
  EXPECT_GE(from.top + from.height, box.top + box.height);
  EXPECT_GE(from.left + from.width, box.left + box.width);
  Bytes pixels;
  for (int64_t y = box.top; y < box.top + box.height; ++y) {
    const int64_t first = (y - from.top) * from.width + box.left - from.left;
    const auto begin = raster.pixels.begin() + first * raster.channels;
    pixels.insert(pixels.end(), begin, begin + box.width * raster.channels);
  }
  return pixels;
}

void ExpectSamePixels(const Bytes& file, const Raster& whole, const RasterRequest& request,
                      const std::string& what) {
  const RasterPart part = Part(file, request);
  const RasterBox all = {0, 0, whole.height, whole.width};
  ASSERT_EQ(part.raster.channels, whole.channels) << what;
  ASSERT_EQ(PixelsOf(part.raster, part.box, request.box), PixelsOf(whole, all, request.box))
      << what << ": " << request.box.top << " " << request.box.left << " " << request.box.height
      << " " << request.box.width << " of " << whole.height << " " << whole.width;
}

TEST(JpegPart, HasThePixelsOfTheWhole) {
  for (const JpegKind& kind : JpegKinds()) {
    BoxDraws draw(7);
    for (uint64_t i = 0; i < 20; ++i) {
      const Bytes file = WriteJpeg(kind, draw(1, 120), draw(1, 150), i);
      const Raster whole = DecodeJpeg(file, "whole", kMostPixels);
      for (int box = 0; box < 6; ++box) {
        ExpectSamePixels(file, whole, {draw.Box(whole.height, whole.width)}, kind.name);
      }
    }
  }
}

// The corner where a sample of colours, a block, and several of these begin and end.
TEST(JpegPart, MayBeginAndEndAtEveryPixel) {
  for (const JpegKind& kind : JpegKinds()) {
    const Bytes file = WriteJpeg(kind, 41, 53, 3);
    const Raster whole = DecodeJpeg(file, "whole", kMostPixels);
    for (int64_t at = 0; at < 38; ++at) {
      ExpectSamePixels(file, whole, {{at, at, 3, 3}}, kind.name);
      ExpectSamePixels(file, whole, {{at, 37 - at, 41 - at, 16}}, kind.name);
    }
  }
}

TEST(JpegPart, IsTurnedAsTheWhole) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const JpegKind& kind : JpegKinds()) {
      BoxDraws draw(static_cast<uint64_t>(orientation));
      const Bytes file = WriteJpeg(kind, 45, 70, 1, orientation);
      const Raster whole = DecodeJpeg(file, "whole", kMostPixels);
      EXPECT_EQ(whole.height, orientation < 5 ? 45 : 70);
      for (int box = 0; box < 5; ++box) {
        ExpectSamePixels(file, whole, {draw.Box(whole.height, whole.width)},
                         kind.name + " " + std::to_string(orientation));
      }
    }
  }
}

// Pixels that need not be exact do not depend on the box either, and are near the exact ones.
TEST(JpegPart, MayBeDecodedAtASmallerSize) {
  for (const JpegKind& kind : JpegKinds()) {
    for (const int shrink : {1, 2, 4, 8}) {
      BoxDraws draw(static_cast<uint64_t>(shrink));
      for (uint64_t i = 0; i < 6; ++i) {
        const int64_t height = draw(1, 120), width = draw(1, 150);
        const Bytes file = WriteJpeg(kind, height, width, i);
        const Raster whole = Whole(file, shrink, false);
        EXPECT_EQ(whole.height, (height + shrink - 1) / shrink);
        EXPECT_EQ(whole.width, (width + shrink - 1) / shrink);
        for (int box = 0; box < 4; ++box) {
          const RasterRequest request = {draw.Box(whole.height, whole.width), shrink, false};
          ExpectSamePixels(file, whole, request, kind.name);
        }
      }
    }
  }
  const Bytes file = WriteJpeg({.name = "4:2:0", .across = 2, .down = 2}, 64, 64, 1);
  const Raster exact = Whole(file, 1, true), near = Whole(file, 1, false);
  EXPECT_NE(exact, near);
  int64_t difference = 0;
  for (size_t i = 0; i < exact.pixels.size(); ++i) {
    difference += std::abs(exact.pixels[i] - near.pixels[i]);
  }
  EXPECT_LT(difference, 8 * std::ssize(exact.pixels));
}

TEST(JpegPart, MustLieInsideThePicture) {
  const Bytes file = WriteJpeg({}, 20, 30, 1);
  for (const RasterBox& box :
       {RasterBox{0, 0, 21, 30}, RasterBox{0, 0, 20, 31}, RasterBox{-1, 0, 5, 5},
        RasterBox{0, -1, 5, 5}, RasterBox{3, 3, 0, 5}, RasterBox{3, 3, 5, 0}}) {
    EXPECT_THROW(Part(file, {box}), InternalError);
  }
}

// Rows below those asked for are not read, but a file without its end is refused.
TEST(JpegPart, MeetsDamageDownToItsRowsAlone) {
  for (const JpegKind& kind : JpegKinds()) {
    if (kind.arithmetic) continue;  // whose pixels may end early: the rest is zeros
    Bytes file = WriteJpeg(kind, 160, 64, 5);
    const Raster whole = DecodeJpeg(file, "whole", kMostPixels);
    const RasterRequest upper = {{0, 0, 40, 64}}, lower = {{120, 0, 40, 64}};
    const Bytes truncated(file.begin(), file.end() - 2);
    EXPECT_THAT(UserErrorOf([&] { Part(truncated, upper); }), HasSubstr("truncated or damaged"))
        << kind.name;
    // The end amid the last pixels of the last scan.
    file.insert(file.end() - 20, {0xff, 0xd9});
    EXPECT_THAT(UserErrorOf([&] { Part(file, lower); }), HasSubstr("truncated or damaged"))
        << kind.name;
    if (kind.progressive || kind.separate) {
      EXPECT_THAT(UserErrorOf([&] { Part(file, upper); }), HasSubstr("truncated or damaged"))
          << kind.name;
    } else {
      ExpectSamePixels(file, whole, upper, kind.name);
    }
  }
}

TEST(JpegPart, AsksOnceTheSizeIsKnown) {
  const Bytes file = WriteJpeg({}, 20, 30, 1, 6);
  int asked = 0;
  const auto choose = [&](const RasterHeader& header) {
    ++asked;
    EXPECT_EQ(header.height, 30);
    EXPECT_EQ(header.width, 20);
    EXPECT_TRUE(header.shrinks);
    return WholeOf(header);
  };
  DecodeJpegPart(file, "file", 600, choose);
  EXPECT_EQ(asked, 1);
  ExpectUserError([&] { DecodeJpegPart(file, "file", 599, choose); }, {"20 × 30 pixels"});
  ExpectUserError([&] { DecodeJpegPart({}, "file", 599, choose); }, {"file: is empty"});
  EXPECT_EQ(asked, 1);
}

TEST(RasterPart, OfAPngFileIsTheWhole) {
  Bytes pixels;
  for (uint8_t i = 0; i < 4 * 5 * 3; ++i) pixels.push_back(i);
  const RasterPart part =
      DecodeRasterPart(EncodePng(5, 4, pixels), "png", 20, [](const RasterHeader& header) {
        EXPECT_EQ(header.height, 4);
        EXPECT_EQ(header.width, 5);
        EXPECT_FALSE(header.shrinks);
        return RasterRequest{.box = {1, 1, 2, 2}};
      });
  EXPECT_EQ(part.box, (RasterBox{0, 0, 4, 5}));
  EXPECT_EQ(part.raster.pixels, pixels);
}

TEST(RasterBox, IsTurnedAsThePicture) {
  constexpr int64_t kHeight = 4, kWidth = 6;
  Raster raster = {.height = kHeight, .width = kWidth, .channels = 1, .pixels = {}};
  for (uint8_t i = 0; i < kHeight * kWidth; ++i) raster.pixels.push_back(i);
  const RasterBox box = {1, 2, 2, 3};
  const Raster inside = {.height = 2,
                         .width = 3,
                         .channels = 1,
                         .pixels = PixelsOf(raster, {0, 0, kHeight, kWidth}, box)};
  for (int orientation = 0; orientation <= 9; ++orientation) {
    const Raster seen = Oriented(raster, orientation);
    const RasterBox turned = OrientedBox(box, kHeight, kWidth, orientation);
    EXPECT_EQ(PixelsOf(seen, {0, 0, seen.height, seen.width}, turned),
              Oriented(inside, orientation).pixels);
    EXPECT_EQ(OrientedBox(turned, seen.height, seen.width, InverseOrientation(orientation)), box);
  }
}

}  // namespace
}  // namespace plimsoll::formats
